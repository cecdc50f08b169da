package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/models/internal/oracle"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

var batchSizes = []int{1, 2, 7, 256}

func TestForward(t *testing.T) {
	for name, spec := range oracle.DenseSpecs() {
		net := newNetwork(t, spec, 1)
		for _, n := range batchSizes {
			t.Run(fmt.Sprint(name, "/", n), func(t *testing.T) {
				obs := oracle.Normal(n*spec.Inputs, 2)
				got, err := net.Forward(obs, n)
				if err != nil {
					t.Fatal(err)
				}
				want := reference(spec, oracle.Flat(net.Params()), oracle.Float64s(obs), n)
				oracle.CheckOutputs(t, "outputs", got, want, 1e-6)
			})
		}
	}
}

// The gradient of every parameter against central differences of the reference.
func TestBackward(t *testing.T) {
	for name, spec := range oracle.DenseSpecs() {
		net := newNetwork(t, spec, 3)
		for _, n := range batchSizes {
			t.Run(fmt.Sprint(name, "/", n), func(t *testing.T) {
				obs, dOut := oracle.Normal(n*spec.Inputs, 4), oracle.Normal(n*spec.Outputs(), 5)
				if _, err := net.Forward(obs, n); err != nil {
					t.Fatal(err)
				}
				for _, p := range net.Params() {
					p.Grad[0] = 99 // Backward sets, it does not add
				}
				if err := net.Backward(dOut); err != nil {
					t.Fatal(err)
				}
				x, d := oracle.Float64s(obs), oracle.Float64s(dOut)
				want := fd.Gradient(nil, func(params []float64) float64 {
					sum := 0.0
					for i, y := range reference(spec, params, x, n) {
						sum += y * d[i]
					}
					return sum
				}, oracle.Flat(net.Params()), &fd.Settings{Formula: fd.Central})
				oracle.CheckGradients(t, fmt.Sprint(n, " rows"), net.Params(), want)
			})
		}
	}
}

func TestReLUAtZero(t *testing.T) {
	net, err := New(oracle.ReLUAtZero(), nil)
	if err != nil {
		t.Fatal(err)
	}
	oracle.CheckReLUAtZero(t, "graph", net)
}

// Graphs read the parameters where they lie and leave them and the observations alone.
func TestParamsInPlace(t *testing.T) {
	spec := oracle.DenseSpecs()["shared tower"]
	net := newNetwork(t, spec, 7)
	for range 2 {
		obs, dOut := oracle.Normal(2*spec.Inputs, 8), oracle.Normal(2*spec.Outputs(), 9)
		before := oracle.Flat(net.Params())
		got, err := net.Forward(obs, 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := net.Backward(dOut); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(before, oracle.Flat(net.Params())) {
			t.Error("parameters were changed")
		}
		if !slices.Equal(obs, oracle.Normal(2*spec.Inputs, 8)) || !slices.Equal(dOut, oracle.Normal(2*spec.Outputs(), 9)) {
			t.Error("arguments were changed")
		}
		want := reference(spec, before, oracle.Float64s(obs), 2)
		if math.Abs(float64(got[0])-want[0]) > 1e-5 {
			t.Errorf("output is %v, want %v", got[0], want[0])
		}
		for _, p := range net.Params() {
			for i := range p.Value {
				p.Value[i] = -p.Value[i] / 2
			}
		}
	}
}

func TestArguments(t *testing.T) {
	spec := models.ActorCritic(3, 2, []int{4}, models.Tanh)
	net := newNetwork(t, spec, 1)
	if err := net.Backward(make([]float32, 3)); !errors.Is(err, ErrBatch) {
		t.Errorf("Backward before Forward: %v, want %v", err, ErrBatch)
	}
	for _, a := range []struct{ length, n int }{{0, 0}, {-3, -1}, {3, 2}, {4, 1}} {
		if _, err := net.Forward(make([]float32, max(a.length, 0)), a.n); !errors.Is(err, ErrBatch) {
			t.Errorf("Forward of %d numbers, %d rows: %v, want %v", a.length, a.n, err, ErrBatch)
		}
	}
	if _, err := net.Forward(make([]float32, 6), 2); err != nil {
		t.Fatal(err)
	}
	if err := net.Backward(make([]float32, 3)); !errors.Is(err, ErrBatch) {
		t.Errorf("Backward of one row after Forward of two: %v, want %v", err, ErrBatch)
	}
	if _, err := New(models.Spec{}, nil); !errors.Is(err, models.ErrSpec) {
		t.Errorf("New of an empty spec: %v, want %v", err, models.ErrSpec)
	}
}

// The whole path from observations to changed parameters: least squares on XOR.
func TestLearnsXOR(t *testing.T) {
	spec := models.Spec{
		Inputs: 2,
		Towers: []models.Tower{{Name: "t", Hidden: []int{8}, Activation: models.Tanh}},
		Heads:  []models.Head{{Name: "h", Size: 1, Gain: 1}},
	}
	net := newNetwork(t, spec, 1)
	adam := optim.NewAdam(net.Params(), optim.DefaultAdam())
	obs, want := []float32{0, 0, 0, 1, 1, 0, 1, 1}, []float32{0, 1, 1, 0}
	loss := 0.0
	for range 300 {
		out, err := net.Forward(obs, 4)
		if err != nil {
			t.Fatal(err)
		}
		d := make([]float32, 4)
		loss = 0
		for i := range d {
			d[i] = out[i] - want[i]
			loss += float64(d[i] * d[i])
		}
		if err := net.Backward(d); err != nil {
			t.Fatal(err)
		}
		adam.Step(0.03)
	}
	if loss > 1e-3 {
		t.Errorf("loss after 300 steps is %v, want at most 1e-3", loss)
	}
}
