package fused

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/internal/oracle"
	"github.com/kubernasium/kubernasium/models/optim"
)

// passBits returns the bits of the outputs and of all gradients.
func passBits(t *testing.T, net *Network, n int) []uint32 {
	t.Helper()
	out, err := net.Forward(oracle.Observations(net.Spec(), n, rand.New(rand.NewPCG(2, 1))), n)
	if err != nil {
		t.Fatal(err)
	}
	if err := net.Backward(oracle.Normal(len(out), 3)); err != nil {
		t.Fatal(err)
	}
	return bitsOf(append(grads(net.Params()), out)...)
}

func TestVectorWidthsGiveEqualBits(t *testing.T) {
	vs := map[string]variant{}
	for _, v := range variants() {
		vs[v.name] = v
	}
	if len(vs) < 3 {
		t.Skip("needs a CPU with AVX2 and AVX-512 and a build without the tag purego")
	}
	compare := func(t *testing.T, spec models.Spec, v variant) {
		if v.name != "avx2" {
			return
		}
		narrow, wide := withBiases(t, spec, 1, v), withBiases(t, spec, 1, vs["avx512"])
		for _, n := range batchSizes {
			if !slices.Equal(passBits(t, narrow, n), passBits(t, wide, n)) {
				t.Errorf("%d rows: AVX2 and AVX-512 differ", n)
			}
		}
	}
	forAll(t, compare)
	forEach(t, compare)
}

// Sequences with starts of episodes, too.
func TestVectorWidthsGiveEqualSequences(t *testing.T) {
	for name, spec := range oracle.Specs() {
		bits := map[string][]uint32{}
		for _, v := range variants() {
			net := withBiases(t, spec, 1, v)
			_, obs, state, starts := oracle.Sequence(spec, 7, 9, 2)
			out, err := net.ForwardSequence(obs, 7, 9, state, starts)
			if err != nil {
				t.Fatal(err)
			}
			if err := net.Backward(oracle.Normal(len(out), 3)); err != nil {
				t.Fatal(err)
			}
			bits[v.name] = bitsOf(append(grads(net.Params()), out)...)
		}
		if a, b := bits["avx2"], bits["avx512"]; a != nil && b != nil && !slices.Equal(a, b) {
			t.Errorf("%s: AVX2 and AVX-512 differ", name)
		}
	}
}

func TestWorkersGiveEqualBits(t *testing.T) {
	several := []int{2, 3, 8, 1}
	if testing.Short() {
		several = []int{3}
	}
	for _, v := range variants() {
		all := maps.Clone(wideSpecs)
		maps.Copy(all, oracle.Specs())
		for name, spec := range all {
			net := withBiases(t, spec, 1, v)
			net.minWork = 0
			rows := []int{1, 31, 64, 256, 511, 512, 1000, 2049}
			if spec.Nodes != nil {
				rows = []int{63, 64, 127, 257} // each of a few nodes
			}
			for _, n := range rows {
				net.SetWorkers(1)
				want := passBits(t, net, n)
				for _, workers := range several {
					net.SetWorkers(workers)
					if !slices.Equal(passBits(t, net, n), want) {
						t.Errorf("%s %s: %d rows: %d workers differ from one", v.name, name, n, workers)
					}
				}
			}
		}
	}
}

// train returns the bits of the parameters after updates of several batch sizes.
func train(t testing.TB, v variant, workers int) []uint32 {
	t.Helper()
	spec := models.ActorCritic(13, 5, []int{70, 33}, models.Tanh)
	net := withBiases(t, spec, 1, v)
	net.SetWorkers(workers)
	adam := optim.NewAdam(net.Params(), optim.DefaultAdam())
	for k := range 30 {
		n := []int{1, 31, 700}[k%3]
		out, err := net.Forward(oracle.Normal(n*spec.Inputs, uint64(k)), n)
		if err == nil {
			err = net.Backward(out)
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		optim.ClipGradNorm(net.Params(), 0.5)
		adam.Step(1e-3)
	}
	var values [][]float32
	for _, p := range net.Params() {
		values = append(values, p.Value)
	}
	return bitsOf(values...)
}

// Equal seeds give equal bits, one run after another and at the same time.
func TestSameBits(t *testing.T) {
	for _, v := range variants() {
		want := train(t, v, 1)
		got := make([][]uint32, 4)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i] = train(t, v, 1+i) })
		}
		wg.Wait()
		for i := range got {
			if !slices.Equal(got[i], want) {
				t.Errorf("%s: run %d differs", v.name, i)
			}
		}
	}
}

func TestNoAllocationsOfSpecs(t *testing.T) {
	forEach(t, func(t *testing.T, spec models.Spec, v variant) {
		net := withBiases(t, spec, 1, v)
		net.SetWorkers(2)
		_, obs, state, starts := oracle.Sequence(spec, 100, 6, 1)
		dOut := oracle.Normal(600*spec.Outputs(), 2)
		pass := func() {
			if _, err := net.ForwardStep(obs[:6*spec.Inputs], 6, state, starts[:6]); err != nil {
				t.Error(err)
			}
			if _, err := net.ForwardSequence(obs, 100, 6, state, starts); err != nil {
				t.Error(err)
			}
			if err := net.Backward(dOut); err != nil {
				t.Error(err)
			}
		}
		pass()
		if got := testing.AllocsPerRun(5, pass); got != 0 {
			t.Errorf("%v allocations, want 0", got)
		}
	})
}

func TestNoAllocations(t *testing.T) {
	spec := models.ActorCritic(300, 65, []int{200, 200}, models.Tanh)
	for _, v := range variants() {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprint(v.name, "/", workers), func(t *testing.T) {
				net := withBiases(t, spec, 1, v)
				net.SetWorkers(workers)
				obs, dOut := oracle.Normal(1000*spec.Inputs, 1), oracle.Normal(1000*spec.Outputs(), 2)
				pass := func(n int) {
					if _, err := net.Forward(obs[:n*spec.Inputs], n); err != nil {
						t.Error(err)
					}
					if err := net.Backward(dOut[:n*spec.Outputs()]); err != nil {
						t.Error(err)
					}
				}
				pass(1000)
				if got := testing.AllocsPerRun(5, func() { pass(1); pass(64); pass(1000) }); got != 0 {
					t.Errorf("%v allocations, want 0", got)
				}
			})
		}
	}
}
