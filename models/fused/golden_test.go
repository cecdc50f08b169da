package fused

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"hash"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/internal/oracle"
	"github.com/kubernasium/kubernasium/models/optim"
)

var update = flag.Bool("update", false, "rewrite testdata/bits.json")

// TestGoldenBits compares digests of outputs, states, gradients, trained parameters and files
// of every spec of the tests with testdata/bits.json, by the kernels: "avx" for both widths of
// vectors, and "gonum". Committed models can be trained again to the byte only as long as these
// bits stay.
func TestGoldenBits(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the digests are those of amd64: other compilers may fuse products with sums")
	}
	const file = "testdata/bits.json"
	all := oracle.DenseSpecs()
	maps.Copy(all, wideSpecs)
	maps.Copy(all, oracle.Specs())
	got := map[string]map[string]string{}
	for _, v := range variants() {
		kernels := v.name
		if kernels != "gonum" {
			kernels = "avx"
		}
		if got[kernels] == nil {
			got[kernels] = map[string]string{}
		}
		for name, spec := range all {
			bits := goldenBits(t, spec, v)
			if was, ok := got[kernels][name]; ok && was != bits {
				t.Errorf("%s: %s differs from another width of vectors", name, v.name)
			}
			got[kernels][name] = bits
		}
	}
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]map[string]string
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for kernels := range got {
		if diff := cmp.Diff(want[kernels], got[kernels]); diff != "" {
			t.Errorf("%s: digests differ (-want +got):\n%s", kernels, diff)
		}
	}
}

// goldenBits returns a digest of what a network computes of batches of several sizes, by one
// worker and by two, and of its parameters after updates by Adam.
func goldenBits(t *testing.T, spec models.Spec, v variant) string {
	t.Helper()
	net := withBiases(t, spec, 1, v)
	digest := sha256.New()
	for i, size := range []struct{ steps, n, workers int }{{1, 1, 1}, {1, 7, 1}, {5, 9, 1}, {3, 100, 1}, {2, 300, 2}} {
		net.SetWorkers(size.workers)
		goldenPasses(t, digest, net, size.steps, size.n, uint64(i))
	}
	adam := optim.NewAdam(net.Params(), optim.DefaultAdam())
	for k := range uint64(4) {
		_, obs, state, starts := oracle.Sequence(spec, 3, 11, 20+k)
		out, err := net.ForwardSequence(obs, 3, 11, state, starts)
		if err != nil {
			t.Fatal(err)
		}
		if err := net.Backward(out); err != nil {
			t.Fatal(err)
		}
		adam.Step(1e-3)
	}
	if _, err := net.WriteTo(digest); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", digest.Sum(nil)[:16])
}

// goldenPasses adds to the digest rows that each begin an episode, steps one by one and a whole
// sequence, with gradients.
func goldenPasses(t *testing.T, digest hash.Hash, net *Network, steps, n int, seed uint64) {
	t.Helper()
	add := func(x []float32, err error) {
		if err == nil {
			err = binary.Write(digest, binary.LittleEndian, x)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	backward := func(outputs int) {
		if err := net.Backward(oracle.Normal(outputs, 3+seed)); err != nil {
			t.Fatal(err)
		}
		for _, p := range net.Params() {
			add(p.Grad, nil)
		}
	}
	spec := net.Spec()
	rows := steps * n
	add(net.Forward(oracle.Observations(spec, rows, rand.New(rand.NewPCG(seed, 7))), rows))
	backward(rows * spec.Outputs())
	_, obs, state, starts := oracle.Sequence(spec, steps, n, seed)
	add(net.ForwardSequence(obs, steps, n, state, starts))
	backward(rows * spec.Outputs())
	for s := range steps {
		add(net.ForwardStep(obs[s*n*spec.Inputs:(s+1)*n*spec.Inputs], n, state, starts[s*n:(s+1)*n]))
	}
	add(state, nil)
}
