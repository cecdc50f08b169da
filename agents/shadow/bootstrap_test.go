package shadow

import (
	"math"
	"testing"
)

// ones returns a ratio whose blocks have these values and equal weights.
func ones(num ...float64) ratio {
	r := ratio{num: num, den: make([]float64, len(num))}
	for i := range r.den {
		r.den[i] = 1
	}
	return r
}

// TestBootstrap compares with the exact distribution of the resampled value, worked by hand.
func TestBootstrap(t *testing.T) {
	for _, tc := range []struct {
		name      string
		r         ratio
		low, high float64
	}{
		{"equal blocks", ones(3, 3, 3), 3, 3},
		// 0 with probability 1/4, 5 with 1/2, 10 with 1/4.
		{"two blocks", ones(0, 10), 0, 10},
		// Twice a binomial (4, 1/4): P(≤ 4) = 0.949, P(≤ 6) = 0.996, and P(0) = 0.316.
		{"one of four", ones(0, 0, 0, 8), 0, 6},
		// A binomial (10, 1/2) over 10: P(≤ 1) = 0.011, P(≤ 2) = 0.055; P(≤ 7) = 0.945, P(≤ 8) = 0.989.
		{"half of ten", ones(0, 1, 0, 1, 0, 1, 0, 1, 0, 1), 0.2, 0.8},
		// The second block weighs nine times the first: k draws of it give 10·9k/(9k+(2-k)); P(0) = P(2) = 1/4.
		{"weights", ratio{num: []float64{0, 90}, den: []float64{1, 9}}, 0, 10},
		// Draws of the empty block alone do not count. 4 in all others.
		{"an empty block", ratio{num: []float64{4, 0}, den: []float64{1, 0}}, 4, 4},
	} {
		got := bootstrap([]ratio{tc.r}, len(tc.r.num))[0]
		if math.Abs(got.low-tc.low) > 1e-12 || math.Abs(got.high-tc.high) > 1e-12 {
			t.Errorf("%s: %v, want [%v, %v]", tc.name, got, tc.low, tc.high)
		}
	}
}

// TestBootstrapSharesDraws: with equal draws, the interval of a difference that is the same in each block has
// no width, however much the blocks differ.
func TestBootstrapSharesDraws(t *testing.T) {
	a, b := ones(1, 5, 2, 8, 3, 9), ones(0, 4, 1, 7, 2, 8)
	got := bootstrap([]ratio{a, b, a.minus(b)}, 6)
	if got[2] != (interval{1, 1}) {
		t.Errorf("difference %v, want [1, 1]", got[2])
	}
	if math.Abs(got[0].low-got[1].low-1) > 1e-12 || math.Abs(got[0].high-got[1].high-1) > 1e-12 || got[0].low == got[0].high {
		t.Errorf("%v and %v, want intervals of one width, 1 apart", got[0], got[1])
	}
}

func TestRatioWithoutDenominator(t *testing.T) {
	r := ratio{num: []float64{0, 0}, den: []float64{0, 0}}
	if v := r.value(); !math.IsNaN(v) {
		t.Errorf("value %v, want NaN", v)
	}
	if got := bootstrap([]ratio{r}, 2)[0]; !math.IsNaN(got.low) || !math.IsNaN(got.high) {
		t.Errorf("interval %v, want NaN", got)
	}
}
