package profile

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/interp"
)

// A not-a-knot spline reproduces every polynomial of degree 3, on any knots.
func TestNotAKnotReproducesCubics(t *testing.T) {
	f := func(x float64) float64 { return 3 - 2*x + 0.5*x*x - 0.25*x*x*x }
	for _, x := range [][]float64{
		{0, 1, 2, 3},
		{0, 0.1, 2, 2.5},
		{-3, -1, 0, 0.5, 4},
		{1, 2, 4, 8, 16, 32},
	} {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = f(v)
		}
		got := make([]cubic, len(x)-1)
		notAKnot(got, x, y, make([]float64, 2*len(x)))
		for i := range got {
			for _, share := range []float64{0, 0.25, 0.5, 1} {
				u := share * (x[i+1] - x[i])
				if v, want := got[i].at(u), f(x[i]+u); math.Abs(v-want) > 1e-9*(1+math.Abs(want)) {
					t.Errorf("knots %v: spline(%v) = %v, want %v", x, x[i]+u, v, want)
				}
			}
		}
	}
}

// gonum's implementation is independent of ours.
func TestNotAKnotEqualsGonum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		n := 4 + rng.IntN(12)
		x, y := make([]float64, n), make([]float64, n)
		for i := range x {
			x[i] = float64(i) + 0.8*rng.Float64()
			y[i] = 10 * rng.NormFloat64()
		}
		var want interp.NotAKnotCubic
		if err := want.Fit(x, y); err != nil {
			t.Fatal(err)
		}
		got := make([]cubic, n-1)
		notAKnot(got, x, y, make([]float64, 2*n))
		for range 20 {
			v := x[0] + rng.Float64()*(x[n-1]-x[0])
			i, u := locate(x, v)
			if d := got[i].at(u) - want.Predict(v); math.Abs(d) > 1e-9 {
				t.Errorf("spline(%v) differs from gonum's by %v", v, d)
			}
		}
	}
}

func TestLocate(t *testing.T) {
	uneven := []float64{0, 1, 5, 6, 20}
	for _, test := range []struct {
		v    float64
		i    int
		u    float64
		name string
	}{
		{-3, 0, 0, "below"},
		{math.NaN(), 0, 0, "not a number"},
		{0, 0, 0, "first knot"},
		{0.5, 0, 0.5, "first interval"},
		{1, 1, 0, "inner knot"},
		{4.5, 1, 3.5, "long interval"},
		{5.5, 2, 0.5, "short interval"},
		{19, 3, 13, "last interval"},
		{20, 3, 14, "last knot"},
		{99, 3, 14, "above"},
	} {
		if i, u := locate(uneven, test.v); i != test.i || u != test.u {
			t.Errorf("%s: locate(%v) = %d, %v, want %d, %v", test.name, test.v, i, u, test.i, test.u)
		}
	}
}
