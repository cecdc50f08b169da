package fused

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/internal/oracle"
)

// forEach calls f for each of the oracle's specs with each variant of the kernels.
func forEach(t *testing.T, f func(t *testing.T, spec models.Spec, v variant)) {
	t.Helper()
	for _, v := range variants() {
		for name, spec := range oracle.Specs() {
			t.Run(v.name+"/"+name, func(t *testing.T) {
				if err := spec.Validate(); err != nil {
					t.Fatal(err)
				}
				f(t, spec, v)
			})
		}
	}
}

// Outputs against the oracle, gradients against central differences of it.
func TestSpecs(t *testing.T) {
	for name, spec := range oracle.Specs() {
		for _, size := range oracle.Sizes() {
			t.Run(fmt.Sprintf("%s/%d steps of %d", name, size[0], size[1]), func(t *testing.T) { checkSpec(t, spec, size[0], size[1]) })
		}
	}
}

func checkSpec(t *testing.T, spec models.Spec, steps, n int) {
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	b, obs, state, starts := oracle.Sequence(spec, steps, n, 4)
	params := oracle.Flat(withBiases(t, spec, 3, variants()[0]).Params())
	want, _ := oracle.New(spec, params).Forward(b)
	dOut := oracle.Normal(len(want), 5)
	gradient := differences(spec, b, params, dOut)
	for _, v := range variants() {
		net := withBiases(t, spec, 3, v)
		before, obs, starts := slices.Clone(state), slices.Clone(obs), slices.Clone(starts)
		got, err := net.ForwardSequence(obs, steps, n, state, starts)
		if err != nil {
			t.Fatal(err)
		}
		oracle.CheckOutputs(t, v.name, got, want, 2e-6)
		if !slices.Equal(before, state) {
			t.Errorf("%s: ForwardSequence changed the state", v.name)
		}
		for _, p := range net.Params() {
			p.Grad[0] = 99 // Backward sets, it does not add
		}
		clear(obs) // Forward has its own copies
		clear(starts)
		for range 2 {
			if err := net.Backward(dOut); err != nil {
				t.Fatal(err)
			}
			oracle.CheckGradients(t, v.name, net.Params(), gradient)
		}
	}
}

// differences returns the gradient of outputs·dOut by central differences. Where a tower is
// detached, its source keeps the parameters of before.
func differences(spec models.Spec, b oracle.Batch, params []float64, dOut []float32) []float64 {
	still := oracle.New(spec, slices.Clone(params))
	return fd.Gradient(nil, func(params []float64) float64 {
		sum := 0.0
		y, _ := oracle.New(spec, params).ForwardDetached(b, still)
		for i, v := range y {
			sum += v * float64(dOut[i])
		}
		return sum
	}, params, &fd.Settings{Formula: fd.Central})
}

// Steps one by one give the outputs of the sequence and its last state.
func TestForwardStep(t *testing.T) {
	forEach(t, func(t *testing.T, spec models.Spec, v variant) {
		oracle.CheckSteps(t, spec, withBiases(t, spec, 3, v))
	})
}

func TestAgainstTorch(t *testing.T) {
	cases, err := oracle.TorchCases()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		for _, v := range variants() {
			if err := c.Check(withBiases(t, c.Spec, 1, v)); err != nil {
				t.Errorf("%s, %s: %v", name, v.name, err)
			}
		}
	}
}

// Nodes of one number 1, 2 and 4; edges 0 → 1 twice, 2 → 1 and 1 → 1, of which one is masked.
// By hand, with the weights 1 and a ReLU:
//   - SAGE: node 1 gathers the mean of 1, 1, 4 and 2, which is 2, and adds its own 2; the others
//     have only their own.
//   - GCN: degrees with loops are 1, 4 and 1. Node 1 gathers (1+1)/√(4·1) + 4/√(4·1) + 2/4 = 3.5,
//     the others 1/1 and 4/1.
func TestMessagesByHand(t *testing.T) {
	for layer, want := range map[string][]float32{models.SAGE: {1, 4, 4}, models.GCN: {1, 3.5, 4}} {
		spec := models.Spec{
			Inputs: 3 + 10 + 5,
			Nodes:  &models.Nodes{N: 3, Features: 1, Edges: &models.Edges{Offset: 3, N: 5, Masked: true, MaskOffset: 13}},
			Towers: []models.Tower{{Name: "t", Hidden: []int{1}, Activation: models.ReLU, Reads: models.NodeRows, Layer: layer}},
			Heads:  []models.Head{{Name: "h", Size: 1, Gain: 1}},
		}
		for _, v := range variants() {
			net, err := newNetwork(spec, nil, v)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range net.Params() {
				if len(p.Shape) == 2 {
					p.Value[0] = 1
				}
			}
			obs := []float32{1, 2, 4, 0, 1, 0, 1, 2, 1, 1, 1, 2, 0, 1, 1, 1, 1, 0}
			got, err := net.Forward(obs, 1)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %v, want %v", layer, v.name, got, want)
			}
			obs[5] = 3
			if _, err := net.Forward(obs, 1); !errors.Is(err, models.ErrEdge) {
				t.Errorf("%s: edge from node 3 of 3: %v, want %v", layer, err, models.ErrEdge)
			}
			if err := net.Backward(make([]float32, 3)); !errors.Is(err, ErrBatch) {
				t.Errorf("%s: Backward after a Forward with an error: %v, want %v", layer, err, ErrBatch)
			}
		}
	}
}

// The parameters of one number of nodes serve another, and the logits of equal nodes are equal.
func TestOtherSize(t *testing.T) {
	nodes := models.NodeActorCritic(4*3+2, models.Nodes{Offset: 2, N: 4, Features: 3}, []int{9, 8}, models.Tanh, "", models.MeanMax, true)
	t.Run("nodes", func(t *testing.T) { checkOtherSize(t, nodes) })
	t.Run("lstm", func(t *testing.T) { checkOtherSize(t, models.WithLSTM(nodes, 1, 6, models.CriticLSTM)) })
}

func checkOtherSize(t *testing.T, small models.Spec) {
	big, err := small.WithNodes(1213, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variants() {
		a, b := withBiases(t, small, 1, v), withBiases(t, big, 2, v)
		var file bytes.Buffer
		if _, err := a.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ReadFrom(&file); err != nil {
			t.Fatal(err)
		}
		obs := oracle.Normal(small.Inputs, 3)
		many := make([]float32, big.Inputs) // node i is node i mod 4
		copy(many, obs[:2])
		for i := range 1213 {
			copy(many[2+3*i:], obs[2+3*(i%4):][:3])
		}
		few, err := a.Forward(obs, 1)
		if err != nil {
			t.Fatal(err)
		}
		all, err := b.Forward(many, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1213 {
			if math.Abs(float64(all[i]-few[i%4])) > 1e-6 {
				t.Fatalf("%s: logit of node %d is %v, want %v", v.name, i, all[i], few[i%4])
			}
		}
		want, _ := oracle.New(big, oracle.Flat(a.Params())).Forward(oracle.Batch{Steps: 1, N: 1, Obs: oracle.Float64s(many)})
		// Means over 1213 nodes carry more rounding.
		if math.Abs(float64(all[1213])-want[1213]) > 1e-5 || math.Abs(float64(all[1214])-want[1214]) > 1e-5 {
			t.Errorf("%s: waiting and value are %v, want %v", v.name, all[1213:], want[1213:])
		}
	}
}

func TestRecurrentArguments(t *testing.T) {
	spec := models.RecurrentActorCritic(3, 2, []int{4}, models.Tanh, 1, 5, models.SharedLSTM)
	net := withBiases(t, spec, 1, variants()[0])
	for name, a := range map[string]struct{ obs, steps, n, state, starts int }{
		"no steps":    {0, 0, 2, 20, 0},
		"no rows":     {0, 2, 0, 0, 0},
		"obs":         {11, 2, 2, 20, 4},
		"state":       {12, 2, 2, 19, 4},
		"starts":      {12, 2, 2, 20, 2},
		"negative":    {12, -2, -2, 20, 4},
		"other state": {12, 2, 2, 40, 4},
	} {
		_, err := net.ForwardSequence(make([]float32, a.obs), a.steps, a.n, make([]float32, a.state), make([]bool, a.starts))
		if !errors.Is(err, ErrBatch) {
			t.Errorf("%s: %v, want %v", name, err, ErrBatch)
		}
	}
	// Forward begins each row with zeros.
	obs := oracle.Normal(6, 1)
	got, err := net.Forward(obs, 2)
	if err != nil {
		t.Fatal(err)
	}
	got = slices.Clone(got)
	want, err := net.ForwardStep(obs, 2, oracle.Normal(20, 2), []bool{true, true})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Forward = %v, ForwardStep at starts %v, %v", got, want, err)
	}
}
