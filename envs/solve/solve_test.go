package solve

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

var ctx = context.Background()

// columns lists a matrix, given by rows, column by column.
func columns(rows ...[]float64) (a []float64) {
	for j := range rows[0] {
		for _, r := range rows {
			a = append(a, r[j])
		}
	}
	return a
}

// The Wyndor Glass Co. example of Hillier and Lieberman, Introduction to Operations Research,
// section 3.1: maximise 3x + 5y subject to x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18. Optimum 36 at (2, 6);
// shadow prices 0, 1.5, 1 (section 4.7).
func TestTextbook(t *testing.T) {
	p := NewLP([]float64{4, 12, 18}, []float64{3, 5, 0, 0, 0}, columns(
		[]float64{1, 0, 1, 0, 0}, []float64{0, 2, 0, 1, 0}, []float64{3, 2, 0, 0, 1}))
	if err := p.Solve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if math.Abs(p.Objective()-36) > 1e-9 {
		t.Errorf("Objective() = %v, want 36", p.Objective())
	}
	for i, want := range []float64{0, 1.5, 1} {
		if math.Abs(p.Duals()[i]-want) > 1e-9 {
			t.Errorf("Duals() = %v, want 0, 1.5, 1", p.Duals())
		}
	}
	// With y worth 5 + d, the shadow prices solve 2·u + 2·1 = 5 + d: u = 1.5 + d/2 in row 2.
	found := false
	for row := range 3 {
		column, value := p.Basic(row)
		if column != 1 {
			continue
		}
		found = true
		if math.Abs(value-6) > 1e-9 {
			t.Errorf("y is %v, want 6", value)
		}
		for i, want := range []float64{0, 0.5, 0} {
			if got := p.Sensitivity(row)[i]; math.Abs(got-want) > 1e-9 {
				t.Errorf("Sensitivity of y in row %d = %v, want %v", i, got, want)
			}
		}
	}
	if !found {
		t.Error("y is not basic")
	}
}

// Beale's example, on which the simplex method cycles by the usual rule: maximise
// 3/4 u − 150 v + 1/50 w − 6 x; optimum 1/20 (Chvátal, Linear Programming, chapter 3).
func TestDegenerate(t *testing.T) {
	p := NewLP([]float64{0, 0, 1}, []float64{.75, -150, .02, -6, 0, 0, 0}, columns(
		[]float64{.25, -60, -.04, 9, 1, 0, 0}, []float64{.5, -90, -.02, 3, 0, 1, 0}, []float64{0, 0, 1, 0, 0, 0, 1}))
	if err := p.Solve(t.Context()); err != nil || math.Abs(p.Objective()-.05) > 1e-9 {
		t.Errorf("Objective() = %v, %v, want 0.05", p.Objective(), err)
	}
}

func TestNoOptimum(t *testing.T) {
	for _, tc := range []struct {
		name    string
		b, c, a []float64
		want    error
	}{
		{"x = 1 and x = 2", []float64{1, 2}, []float64{1}, []float64{1, 1}, ErrInfeasible},
		{"x - y = 1", []float64{1}, []float64{1, 0}, []float64{1, -1}, ErrUnbounded},
	} {
		if err := NewLP(tc.b, tc.c, tc.a).Solve(t.Context()); !errors.Is(err, tc.want) {
			t.Errorf("%s: Solve() = %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestAgainstGonum compares optima of random programs with those of gonum's simplex method.
func TestAgainstGonum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	compared := 0
	for range 200 {
		m, n := 2+rng.IntN(4), 6+rng.IntN(20)
		rows, b, c, minus := make([][]float64, m), make([]float64, m), make([]float64, n), make([]float64, n)
		for j := range c {
			c[j] = rng.NormFloat64()
			minus[j] = -c[j]
		}
		for i := range rows {
			rows[i] = make([]float64, n)
			for j := range rows[i] {
				rows[i][j] = float64(rng.IntN(9))
			}
			rows[i][i] = 9 // of full rank, and bounded
			for _, v := range rows[i] {
				b[i] += v // x = 1 is feasible
			}
		}
		a := columns(rows...)
		want, _, err := lp.Simplex(minus, mat.NewDense(m, n, concat(rows)), append([]float64(nil), b...), 0, nil)
		if err != nil {
			continue // of some of them gonum cannot find a first basis
		}
		p := NewLP(b, c, a)
		if err := p.Solve(t.Context()); err != nil {
			t.Fatal(err)
		}
		if math.Abs(p.Objective()+want) > 1e-6 {
			t.Errorf("%d rows, %d columns: %v, gonum finds %v", m, n, p.Objective(), -want)
		}
		compared++
	}
	if compared < 150 {
		t.Errorf("%d programs compared, want at least 150", compared)
	}
}

func concat(rows [][]float64) (all []float64) {
	for _, r := range rows {
		all = append(all, r...)
	}
	return all
}

// knapsack is the program of items with weights and values that may be taken any number of times:
// the last column is the capacity that is left.
func knapsack(weight, value []int, capacity int) *LP {
	var a, c []float64
	for i, w := range weight {
		a, c = append(a, float64(w)), append(c, float64(value[i]))
	}
	return NewLP([]float64{float64(capacity)}, append(c, 0), append(a, 1))
}

// fill is the best of a knapsack by dynamic programming.
func fill(weight, value []int, capacity int) float64 {
	best := make([]int, capacity+1)
	for room := 1; room <= capacity; room++ {
		for i, w := range weight {
			if w <= room {
				best[room] = max(best[room], best[room-w]+value[i])
			}
		}
	}
	return float64(best[capacity])
}

// TestKnapsack compares branch and bound with dynamic programming. Round only rounds down, or
// knows no solution but whole ones.
func TestKnapsack(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	branched := 0
	for range 100 {
		weight, value := make([]int, 6), make([]int, 6)
		for i := range weight {
			weight[i] = 7 + rng.IntN(30)
			value[i] = weight[i] + rng.IntN(6)
		}
		capacity := 60 + rng.IntN(100)
		want := fill(weight, value, capacity)
		for _, tc := range []struct {
			wholeOnly bool
			opts      Options
		}{{false, Options{Whole: true}}, {true, Options{Whole: true}}, {true, Options{Gap: 1e-9}}} {
			p := knapsack(weight, value, capacity)
			if err := p.Solve(t.Context()); err != nil {
				t.Fatal(err)
			}
			best := math.Inf(-1)
			tc.opts.Round = func(_ context.Context, floor iter.Seq2[int, int]) float64 {
				v, room := 0, capacity
				for j, n := range floor {
					if j < len(weight) {
						v += n * value[j]
						room -= n * weight[j]
					} else {
						room -= n
					}
				}
				if room == 0 || !tc.wholeOnly {
					best = max(best, float64(v))
				}
				return best
			}
			r, err := p.Maximize(ctx, tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			if r.Value != want || math.Abs(r.Bound-want) > 1e-6 {
				t.Errorf("capacity %d, weights %v, values %v: %+v, want %v", capacity, weight, value, r, want)
			}
			branched += r.Nodes - 1
		}
	}
	if branched < 200 {
		t.Errorf("%d branches in all: the programs are too easy to tell", branched)
	}
}

// TestLimits: branch and bound ends with its context, and after Options.Nodes with a bound that
// holds.
func TestLimits(t *testing.T) {
	weight, value := []int{31, 37, 41, 43, 47}, []int{33, 39, 43, 45, 49}
	want := fill(weight, value, 200)
	none := func(context.Context, iter.Seq2[int, int]) float64 { return 0 }
	p := knapsack(weight, value, 200)
	if err := p.Solve(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := p.Maximize(ctx, Options{Nodes: 1, Round: none})
	if err != nil || r.Nodes != 1 || r.Bound < want {
		t.Errorf("Maximize with 1 node: %+v, %v, want a bound of at least %v", r, err, want)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.Maximize(ended, Options{Round: none}); !errors.Is(err, context.Canceled) {
		t.Errorf("Maximize with an ended context: %v, want context.Canceled", err)
	}
}
