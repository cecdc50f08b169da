package search

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHalving: schedules worked by hand from the paper's rule: each of m actions left gets
// max(1, ⌊n/(⌈log2 k⌉·m)⌋) visits, then half of them, at least two, are left.
func TestHalving(t *testing.T) {
	for _, tc := range []struct {
		actions, simulations int
		want                 []Phase
	}{
		{16, 64, []Phase{{16, 1}, {8, 2}, {4, 4}, {2, 8}}}, // 16 each
		{4, 16, []Phase{{4, 2}, {2, 4}}},                   // 8 each
		{6, 24, []Phase{{6, 1}, {3, 2}, {2, 4}, {2, 2}}},   // 6 + 6 + 8, and 4 that are left
		{3, 10, []Phase{{3, 1}, {2, 2}, {2, 1}, {1, 1}}},   // 3 + 4, and 3 that are left
		{8, 5, []Phase{{8, 1}}},                            // each once
		{1, 7, []Phase{{1, 7}}},
	} {
		if d := cmp.Diff(tc.want, Halving(tc.actions, tc.simulations)); d != "" {
			t.Errorf("%d actions, %d simulations (-want +got):\n%s", tc.actions, tc.simulations, d)
		}
	}
}

// TestSigma: (50 + 4) · 1 · 0.5 is 27. Values 2, 4 and 3 are 0, 1 and ½ of their range.
func TestSigma(t *testing.T) {
	if got := sigma(0.5, 4); got != 27 {
		t.Errorf("σ(0.5) after 4 visits is %v, want 27", got)
	}
	if d := cmp.Diff([]float64{0, 1, 0.5}, normalize([]float64{2, 4, 3})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]float64{0, 0}, normalize([]float64{7, 7})); d != "" {
		t.Error(d)
	}
}

// TestBound: differences 1, 2 and 3 have mean 2 and the standard error of the mean 1/√3.
func TestBound(t *testing.T) {
	a, b := []float64{11, 22, 33}, []float64{10, 20, 30}
	for z, want := range map[float64]float64{0: 2, 1: 2 - 1/math.Sqrt(3), 2: 2 - 2/math.Sqrt(3)} {
		if got := bound(a, b, z); math.Abs(got-want) > 1e-12 {
			t.Errorf("bound of %v standard errors is %v, want %v", z, got, want)
		}
	}
	if got := bound(a[:1], b[:1], 1); !math.IsInf(got, -1) {
		t.Errorf("bound of one difference is %v, want −∞", got)
	}
}
