package graph

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/internal/oracle"
)

// forEach calls f for each of the oracle's specs.
func forEach(t *testing.T, f func(t *testing.T, spec models.Spec)) {
	t.Helper()
	for name, spec := range oracle.Specs() {
		t.Run(name, func(t *testing.T) { f(t, spec) })
	}
}

// Outputs and states against the reference, gradients against central differences of it.
func TestSpecs(t *testing.T) {
	forEach(t, func(t *testing.T, spec models.Spec) {
		net := newNetwork(t, spec, 3)
		for _, size := range oracle.Sizes() {
			steps, n := size[0], size[1]
			what := fmt.Sprint(steps, " steps of ", n)
			b, obs, state, starts := oracle.Sequence(spec, steps, n, 4)
			before := slices.Clone(state)
			got, err := net.ForwardSequence(obs, steps, n, state, starts)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := oracle.New(spec, oracle.Flat(net.Params())).Forward(b)
			oracle.CheckOutputs(t, what, got, want, 2e-6)
			if !slices.Equal(before, state) {
				t.Error("ForwardSequence changed the state")
			}
			dOut := oracle.Normal(len(got), 5)
			for _, p := range net.Params() {
				p.Grad[0] = 99 // Backward sets, it does not add
			}
			clear(obs)
			clear(starts)
			if err := net.Backward(dOut); err != nil {
				t.Fatal(err)
			}
			_, _, _, b.Starts = oracle.Sequence(spec, steps, n, 4)
			oracle.CheckGradients(t, what, net.Params(), differences(spec, b, oracle.Flat(net.Params()), dOut))
		}
	})
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
	forEach(t, func(t *testing.T, spec models.Spec) {
		oracle.CheckSteps(t, spec, newNetwork(t, spec, 3))
	})
}

func TestAgainstTorch(t *testing.T) {
	cases, err := oracle.TorchCases()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		if err := c.Check(newNetwork(t, c.Spec, 1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLimits(t *testing.T) {
	spec := func(nodes int, edges *models.Edges) models.Spec {
		return models.NodeActorCritic(2*nodes+6, models.Nodes{N: nodes, Features: 2, Edges: edges}, []int{3}, models.Tanh, models.SAGE, models.Mean, false)
	}
	edges := func(nodes int) *models.Edges { return &models.Edges{Offset: 2 * nodes, N: 2} }
	if _, err := New(spec(MaxNodes+1, edges(MaxNodes+1)), nil); !errors.Is(err, models.ErrSpec) {
		t.Errorf("%d nodes with edges: %v, want %v", MaxNodes+1, err, models.ErrSpec)
	}
	net := newNetwork(t, spec(MaxNodes, edges(MaxNodes)), 1)
	obs := make([]float32, net.Spec().Inputs)
	obs[2*MaxNodes] = MaxNodes
	if _, err := net.Forward(obs, 1); !errors.Is(err, models.ErrEdge) {
		t.Errorf("edge from node %d: %v, want %v", MaxNodes, err, models.ErrEdge)
	}
	if err := net.Backward(make([]float32, net.Spec().Outputs())); !errors.Is(err, ErrBatch) {
		t.Errorf("Backward after a Forward with an error: %v, want %v", err, ErrBatch)
	}
	lstm := newNetwork(t, models.RecurrentActorCritic(3, 2, []int{4}, models.Tanh, 1, 5, models.SharedLSTM), 1)
	for _, a := range []struct{ obs, steps, n, state, starts int }{{0, 0, 2, 20, 0}, {12, 2, 2, 19, 4}, {12, 2, 2, 20, 2}, {11, 2, 2, 20, 4}, {12, -2, -2, 20, 4}} {
		_, err := lstm.ForwardSequence(make([]float32, a.obs), a.steps, a.n, make([]float32, a.state), make([]bool, a.starts))
		if !errors.Is(err, ErrBatch) {
			t.Errorf("%+v: %v, want %v", a, err, ErrBatch)
		}
	}
}
