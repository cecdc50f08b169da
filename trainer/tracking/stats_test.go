package tracking

import (
	"math"
	"testing"
)

func wantEstimate(t *testing.T, what string, got, want Estimate, tolerance float64) {
	t.Helper()
	near := func(a, b float64) bool { return math.Abs(a-b) <= tolerance || math.IsNaN(a) && math.IsNaN(b) }
	if !near(got.Mean, want.Mean) || !near(got.Low, want.Low) || !near(got.High, want.High) {
		t.Errorf("%s = %+v, want %+v within %v", what, got, want, tolerance)
	}
}

func TestMeanStd(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name      string
		x         []float64
		mean, std float64
	}{
		{"empty", nil, nan, nan},
		{"single", []float64{3}, 3, nan},
		// By hand: squares of the deviations sum to 9+1+1+1+0+0+4+16 = 32, and 32/7.
		{"eight", []float64{2, 4, 4, 4, 5, 5, 7, 9}, 5, math.Sqrt(32.0 / 7)},
		{"constant", []float64{-1, -1, -1}, -1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantEstimate(t, "mean and std", Estimate{Mean(tt.x), Std(tt.x), 0}, Estimate{tt.mean, tt.std, 0}, 1e-14)
		})
	}
}

// The intervals are those of scipy 1.17.1: scipy.stats.t.interval and ttest_rel.
func TestStudentT(t *testing.T) {
	nan := math.NaN()
	x := []float64{2, 4, 4, 4, 5, 5, 7, 9}
	wantEstimate(t, "StudentT(eight)", StudentT(x), Estimate{5, 3.21251208176379, 6.787487918236209}, 1e-9)
	// Standard error 1, one degree of freedom: 1 ± 12.7062, as in any table of t.
	wantEstimate(t, "StudentT(two)", StudentT([]float64{0, 2}), Estimate{1, -11.706204736174694, 13.706204736174694}, 1e-8)
	wantEstimate(t, "StudentT(one)", StudentT([]float64{4}), Estimate{4, nan, nan}, 0)
	wantEstimate(t, "StudentT(none)", StudentT(nil), Estimate{nan, nan, nan}, 0)

	a, b := []float64{12, 15, 11, 18, 14}, []float64{10, 14, 12, 13, 13}
	wantEstimate(t, "PairedDifference", PairedDifference(a, b), Estimate{1.6, -1.1203495226330227, 4.320349522633023}, 1e-9)
}

func TestPairedDifferencePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic for lengths that differ")
		}
	}()
	PairedDifference([]float64{1}, []float64{1, 2})
}
