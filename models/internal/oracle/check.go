package oracle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/models"
)

// Fill draws standard normal numbers.
func Fill(x []float32, rng *rand.Rand) {
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
}

// Normal returns n standard normal numbers drawn from seed.
func Normal(n int, seed uint64) []float32 {
	x := make([]float32, n)
	Fill(x, rand.New(rand.NewPCG(seed, 1)))
	return x
}

// DrawBiases draws the biases, which are zero in a new network.
func DrawBiases(params []models.Param, rng *rand.Rand) {
	for _, p := range params {
		if len(p.Shape) == 1 {
			Fill(p.Value, rng)
		}
	}
}

// Float64s converts numbers.
func Float64s(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// Flat concatenates the values of parameters.
func Flat(params []models.Param) []float64 {
	var v []float64
	for _, p := range params {
		v = append(v, Float64s(p.Value)...)
	}
	return v
}

// Sequence draws a batch for a network and its oracle: several steps, with a state and starts of
// episodes, which networks without LSTMs ignore.
func Sequence(spec models.Spec, steps, n int, seed uint64) (b Batch, obs, state []float32, starts []bool) {
	rng := rand.New(rand.NewPCG(seed, 9))
	obs = Observations(spec, steps*n, rng)
	state, starts = make([]float32, n*spec.StateSize()), make([]bool, steps*n)
	Fill(state, rng)
	for i := range starts {
		starts[i] = rng.IntN(4) == 0
	}
	return Batch{Steps: steps, N: n, Obs: Float64s(obs), State: Float64s(state), Starts: starts}, obs, state, starts
}

// Sizes returns the numbers of steps and environments to test. With -short there is one of few rows: finite
// differences of an oracle are slow under the race detector.
func Sizes() [][2]int {
	if testing.Short() {
		return [][2]int{{2, 2}}
	}
	return [][2]int{{5, 2}, {1, 1}, {1, 3}}
}

// CheckOutputs compares numbers with a tolerance that is relative above 1.
func CheckOutputs(t testing.TB, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tolerance*(1+math.Abs(want[i]))) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// CheckGradients compares gradients with a tolerance of 1e-4 of the same parameter's largest.
func CheckGradients(t testing.TB, what string, params []models.Param, want []float64) {
	t.Helper()
	for _, p := range params {
		w := want[:len(p.Grad)]
		want = want[len(p.Grad):]
		scale := 1e-3
		for _, v := range w {
			scale = max(scale, math.Abs(v))
		}
		for i, g := range p.Grad {
			if !(math.Abs(float64(g)-w[i]) <= 1e-4*scale) {
				t.Fatalf("%s: gradient of %s[%d] is %v, want %v", what, p.Name, i, g, w[i])
			}
		}
	}
}

// ReLUAtZero returns the network of CheckReLUAtZero.
func ReLUAtZero() models.Spec { return models.ActorCritic(3, 2, []int{4, 4}, models.ReLU) }

// CheckReLUAtZero checks that the derivative of ReLU at 0 is 0, as in PyTorch. With observations
// and biases of zero, all hidden layers are 0, so that only the heads' biases have gradients.
func CheckReLUAtZero(t testing.TB, what string, net models.Network) {
	t.Helper()
	for _, p := range net.Params() {
		if len(p.Shape) == 2 {
			copy(p.Value, Normal(len(p.Value), 6))
		}
	}
	if _, err := net.Forward(make([]float32, 2*3), 2); err != nil {
		t.Fatal(err)
	}
	if err := net.Backward([]float32{1, 2, 3, 4, 5, 6}); err != nil {
		t.Fatal(err)
	}
	want := map[string][]float32{"action_net.bias": {5, 7}, "value_net.bias": {9}}
	for _, p := range net.Params() {
		w := want[p.Name]
		if w == nil {
			w = make([]float32, len(p.Grad))
		}
		if !slices.Equal(p.Grad, w) {
			t.Errorf("%s: gradient of %s = %v, want %v", what, p.Name, p.Grad, w)
		}
	}
}

// CheckSteps compares the outputs of single steps, and the last state, with those of the sequence.
func CheckSteps(t testing.TB, spec models.Spec, net models.Recurrent) {
	t.Helper()
	const steps, n = 5, 3
	b, obs, state, starts := Sequence(spec, steps, n, 6)
	want, last := New(spec, Flat(net.Params())).Forward(b)
	for s := range steps {
		got, err := net.ForwardStep(obs[s*n*spec.Inputs:(s+1)*n*spec.Inputs], n, state, starts[s*n:(s+1)*n])
		if err != nil {
			t.Fatal(err)
		}
		CheckOutputs(t, fmt.Sprint("step ", s), got, want[s*len(got):(s+1)*len(got)], 2e-6)
	}
	CheckOutputs(t, "state", state, last, 2e-6)
}
