package fused

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/models/internal/oracle"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/models"
)

var batchSizes = []int{1, 2, 7, 63, 64, 65, 256, 1000}

// rowCounts leaves out the longest batches of wide networks where tests are to be short: the
// reference takes seconds for them under the race detector.
func rowCounts(spec models.Spec) []int {
	if testing.Short() && spec.Inputs > 100 {
		return batchSizes[:len(batchSizes)-2]
	}
	return batchSizes
}

// forAll calls f for each spec with each variant of the kernels.
func forAll(t *testing.T, f func(t *testing.T, spec models.Spec, v variant)) {
	t.Helper()
	all := oracle.DenseSpecs()
	maps.Copy(all, wideSpecs)
	for _, v := range variants() {
		for name, spec := range all {
			t.Run(v.name+"/"+name, func(t *testing.T) { f(t, spec, v) })
		}
	}
}

func TestForward(t *testing.T) {
	forAll(t, func(t *testing.T, spec models.Spec, v variant) {
		net := withBiases(t, spec, 1, v)
		ref := reference{spec: spec, params: oracle.Flat(net.Params())}
		for _, n := range rowCounts(spec) {
			obs := oracle.Normal(n*spec.Inputs, 2)
			got, err := net.Forward(obs, n)
			if err != nil {
				t.Fatal(err)
			}
			want := ref.forward(oracle.Float64s(obs), n)
			// Sums of hundreds of products of size 1 carry more rounding.
			tolerance := 1e-6 * max(1, math.Sqrt(float64(spec.Inputs))/4)
			oracle.CheckOutputs(t, fmt.Sprint(n, " rows"), got, want, tolerance)
		}
	})
}

func TestBackward(t *testing.T) {
	forAll(t, func(t *testing.T, spec models.Spec, v variant) {
		net := withBiases(t, spec, 3, v)
		ref := reference{spec: spec, params: oracle.Flat(net.Params())}
		for _, n := range rowCounts(spec) {
			obs, dOut := oracle.Normal(n*spec.Inputs, 4), oracle.Normal(n*spec.Outputs(), 5)
			if _, err := net.Forward(obs, n); err != nil {
				t.Fatal(err)
			}
			for _, p := range net.Params() {
				p.Grad[0] = 99 // Backward sets, it does not add
			}
			clear(obs) // Forward has its own copy
			if err := net.Backward(dOut); err != nil {
				t.Fatal(err)
			}
			ref.forward(oracle.Float64s(oracle.Normal(n*spec.Inputs, 4)), n)
			ref.backward(oracle.Float64s(dOut))
			oracle.CheckGradients(t, fmt.Sprint(n, " rows"), net.Params(), ref.grads)
		}
	})
}

// The reference and the network against central differences of the reference's outputs.
func TestFiniteDifferences(t *testing.T) {
	for name, spec := range oracle.DenseSpecs() {
		const n = 7
		obs, dOut := oracle.Normal(n*spec.Inputs, 4), oracle.Float64s(oracle.Normal(n*spec.Outputs(), 5))
		x := oracle.Float64s(obs)
		for _, v := range variants() {
			net := withBiases(t, spec, 3, v)
			if _, err := net.Forward(obs, n); err != nil {
				t.Fatal(err)
			}
			if err := net.Backward(oracle.Normal(n*spec.Outputs(), 5)); err != nil {
				t.Fatal(err)
			}
			want := fd.Gradient(nil, func(params []float64) float64 {
				sum := 0.0
				for i, y := range (&reference{spec: spec, params: params}).forward(x, n) {
					sum += y * dOut[i]
				}
				return sum
			}, oracle.Flat(net.Params()), &fd.Settings{Formula: fd.Central})
			oracle.CheckGradients(t, v.name+" "+name, net.Params(), want)
			ref := reference{spec: spec, params: oracle.Flat(net.Params())}
			ref.forward(x, n)
			ref.backward(dOut)
			for i, g := range ref.grads {
				if math.Abs(g-want[i]) > 1e-6*(1+math.Abs(g)) {
					t.Errorf("%s: reference's gradient %d is %v, differences give %v", name, i, g, want[i])
				}
			}
		}
	}
}

func TestReLUAtZero(t *testing.T) {
	for _, v := range variants() {
		net, err := newNetwork(oracle.ReLUAtZero(), nil, v)
		if err != nil {
			t.Fatal(err)
		}
		oracle.CheckReLUAtZero(t, v.name, net)
	}
}

// A NaN of an observation reaches the outputs of its row, and no other row.
// TestSkip: without the value, the outputs of other heads have the same bits, and those of the value are of an earlier call.
func TestSkip(t *testing.T) {
	for name, spec := range map[string]models.Spec{
		"two towers": {
			Inputs: 5,
			Towers: []models.Tower{{Name: "pi", Hidden: []int{8}, Activation: models.Tanh}, {Name: "vf", Hidden: []int{8}, Activation: models.Tanh}},
			Heads:  []models.Head{{Name: "action_net", Size: 3, Gain: 1}, {Name: "value_net", Tower: 1, Size: 1, Gain: 1}},
		},
		"pooled nodes": {
			Inputs: 4*3 + 2, Nodes: &models.Nodes{N: 4, Features: 3},
			Towers: []models.Tower{
				{Name: "pi", Hidden: []int{8}, Activation: models.ReLU, Reads: models.NodeRows},
				{Name: "vf", Hidden: []int{8}, Activation: models.ReLU, Reads: models.NodeRows},
				{Name: "pool", Reads: "vf", Pool: models.MeanMax},
			},
			Heads: []models.Head{{Name: "action_net", Size: 1, Gain: 1}, {Name: "value_net", Tower: 2, Size: 1, Gain: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			n, err := New(spec, rng)
			if err != nil {
				t.Fatal(err)
			}
			const rows = 3
			obs := func() []float32 {
				x := make([]float32, rows*spec.Inputs)
				for i := range x {
					x[i] = rng.Float32()
				}
				return x
			}
			forward := func(x []float32) []float32 {
				y, err := n.Forward(x, rows)
				if err != nil {
					t.Fatal(err)
				}
				return slices.Clone(y)
			}
			x, x2 := obs(), obs()
			want, other := forward(x), forward(x2)
			n.Skip("value_net")
			got := forward(x)
			n.Skip("")
			again := forward(x)
			value, _ := spec.Head("value_net")
			for i := range got {
				switch {
				case i%spec.Outputs() == value && (got[i] != other[i] || got[i] == want[i]):
					t.Errorf("output %d, the value, is %v, want %v as in the call before", i, got[i], other[i])
				case i%spec.Outputs() != value && got[i] != want[i]:
					t.Errorf("output %d is %v without the value, want %v", i, got[i], want[i])
				}
			}
			if !slices.Equal(again, want) {
				t.Errorf("outputs are %v after Skip(\"\"), want %v", again, want)
			}
		})
	}
}

func TestNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, activation := range []string{models.Tanh, models.ReLU} {
		spec := models.ActorCritic(3, 2, []int{20}, activation)
		for _, v := range variants() {
			net := withBiases(t, spec, 1, v)
			out, err := net.Forward([]float32{1, 2, 3, 1, nan, 3, 1, 2, 3}, 3)
			if err != nil {
				t.Fatal(err)
			}
			for i, y := range out {
				if got, want := y != y, i/3 == 1; got != want {
					t.Errorf("%s %s: output %d is %v", v.name, activation, i, y)
				}
			}
		}
	}
}

func TestArguments(t *testing.T) {
	spec := models.ActorCritic(3, 2, []int{4}, models.Tanh)
	net := withBiases(t, spec, 1, variants()[0])
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
	if err := net.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if got, want := net.Kernels(), variants()[0].name; got != want {
		t.Errorf("Kernels() = %q, want %q", got, want)
	}
	if !net.Spec().Equal(spec) {
		t.Errorf("Spec() = %+v, want %+v", net.Spec(), spec)
	}
}

func TestWriteRead(t *testing.T) {
	spec, v := models.ActorCritic(5, 3, []int{7, 6}, models.Tanh), variants()[0]
	from, to := withBiases(t, spec, 1, v), withBiases(t, spec, 2, v)
	var buf bytes.Buffer
	written, err := from.WriteTo(&buf)
	if err != nil || written != int64(buf.Len()) {
		t.Fatalf("WriteTo = %d, %v, wrote %d bytes", written, err, buf.Len())
	}
	file := buf.Bytes()
	if read, err := to.ReadFrom(bytes.NewReader(file)); err != nil || read != written {
		t.Fatalf("ReadFrom = %d, %v, want %d", read, err, written)
	}
	obs := oracle.Normal(5, 3)
	a, errA := from.Forward(obs, 1)
	b, errB := to.Forward(obs, 1)
	if errA != nil || errB != nil || !slices.Equal(a, b) {
		t.Errorf("outputs %v, %v and %v, %v", a, errA, b, errB)
	}
	other := withBiases(t, models.ActorCritic(5, 3, []int{7}, models.Tanh), 4, v)
	before := oracle.Flat(other.Params())
	if _, err := other.ReadFrom(bytes.NewReader(file)); !errors.Is(err, models.ErrMismatch) {
		t.Errorf("another network reads the file: %v, want %v", err, models.ErrMismatch)
	}
	if !slices.Equal(before, oracle.Flat(other.Params())) {
		t.Error("a refused file changed parameters")
	}
}
