package graph

import (
	"math"
	"slices"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// The faults of Gorgonia that this repository works around. A test that fails here after an
// upgrade says that a workaround is no longer needed.

// vector returns a graph with a row of numbers, and evaluate runs it.
func vector(data ...float32) (*G.ExprGraph, *G.Node) {
	g := G.NewGraph()
	return g, G.NewMatrix(g, tensor.Float32, G.WithShape(1, len(data)), G.WithName("x"), G.WithValue(dense(data, 1, len(data))))
}

func evaluate(t *testing.T, g *G.ExprGraph, nodes ...*G.Node) [][]float32 {
	t.Helper()
	values := make([]G.Value, len(nodes))
	for i, n := range nodes {
		G.Read(n, &values[i])
	}
	vm := G.NewTapeMachine(g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	var results [][]float32
	for _, v := range values {
		results = append(results, v.Data().([]float32))
	}
	return results
}

// log(e¹+e²+e³) is 3.4076. Learners compute their distributions themselves.
func TestGorgoniaLogSumExp(t *testing.T) {
	defer func() {
		if r := recover(); r != nil {
			t.Log("LogSumExp panics:", r)
		}
	}()
	g, x := vector(1, 2, 3)
	y, err := G.LogSumExp(x, 1)
	if err != nil {
		return
	}
	var value G.Value
	G.Read(y, &value)
	vm := G.NewTapeMachine(g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		return
	}
	got := math.NaN()
	switch v := value.Data().(type) {
	case float32:
		got = float64(v)
	case []float32:
		got = float64(v[0])
	}
	if math.Abs(got-3.40760596) < 1e-5 {
		t.Errorf("LogSumExp is right: %v", got)
	}
}

// Both of one node become one operation, so that the second has the values of the first.
func TestGorgoniaSoftMaxAndLogSoftMax(t *testing.T) {
	g, x := vector(1, 2, 3)
	p, err := G.SoftMax(x)
	if err != nil {
		t.Fatal(err)
	}
	logp, err := G.LogSoftMax(x)
	if err != nil {
		t.Fatal(err)
	}
	if v := evaluate(t, g, p, logp); !slices.Equal(v[0], v[1]) {
		t.Errorf("SoftMax %v and LogSoftMax %v of one node differ", v[0], v[1])
	}
}

// The first step of Adam is lr·g/(√(v/(1-β₂))+ε) with v = (1-β₂)·g², which is lr. Gorgonia takes
// 1-float32(0.999), 1.3e-5 less, for v alone; package optim does not (TestAdamComplement).
func TestGorgoniaAdam(t *testing.T) {
	g, x := vector(0)
	loss, err := G.Sum(x)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := G.Grad(loss, x); err != nil {
		t.Fatal(err)
	}
	vm := G.NewTapeMachine(g, G.BindDualValues(x))
	defer vm.Close()
	solver := G.NewAdamSolver(G.WithLearnRate(1), G.WithEps(0))
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	if err := solver.Step(G.NodesToValueGrads(G.Nodes{x})); err != nil {
		t.Fatal(err)
	}
	if got := float64(x.Value().Data().([]float32)[0]); math.Abs(got+1) < 1e-6 || math.Abs(got+1) > 1e-4 {
		t.Errorf("the first step of size 1 leads to %v, want Gorgonia's -1.0000065", got)
	}
}

// max(x, 0) at 0 has the derivative 1, where PyTorch has 0 (TestReLUAtZero).
func TestGorgoniaRectify(t *testing.T) {
	if got := gradient(t, func(x *G.Node) (*G.Node, error) { return G.Rectify(x) }, 0, 1); got[0] != 1 {
		t.Errorf("derivative at 0 is %v, want Gorgonia's 1", got[0])
	}
}

// Each of two equal maxima has the whole gradient, where central differences of a common change
// give it once (TestSpecs of GCN layers).
func TestGorgoniaMaxOfEqual(t *testing.T) {
	got := gradient(t, func(x *G.Node) (*G.Node, error) { return G.Max(x, 1) }, 2, 2)
	if !slices.Equal(got, []float32{1, 1}) {
		t.Errorf("gradients of equal maxima are %v, want Gorgonia's 1 and 1", got)
	}
}

// gradient returns that of the sum of f of a row.
func gradient(t *testing.T, f func(x *G.Node) (*G.Node, error), data ...float32) []float32 {
	t.Helper()
	g, x := vector(data...)
	y, err := f(x)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := G.Sum(y)
	if err != nil {
		t.Fatal(err)
	}
	grads, err := G.Grad(sum, x)
	if err != nil {
		t.Fatal(err)
	}
	return evaluate(t, g, grads[0])[0]
}
