package seriesforecast

import (
	"math"
	"testing"
)

// TestHoltWintersByStatsmodels compares forecasts with those of statsmodels 0.15.0 with given constants
// and first states: ETSModel(y, error='add', trend='add', damped_trend=True, seasonal='add',
// seasonal_periods=4, initialization_method='known', …).smooth([0.3, 0.3·0.1, 0.2, 0.9]).forecast(6), and
// ExponentialSmoothing without seasons. (With seasons, ExponentialSmoothing.forecast ignores the update
// of the last phase.)
func TestHoltWintersByStatsmodels(t *testing.T) {
	y := []float64{10, 14, 8, 12, 11, 15.5, 8.5, 13, 12.5, 16, 9, 13.5, 13, 18, 10.5, 14}
	for _, tc := range []struct {
		period int
		want   []float64
	}{
		{4, []float64{13.25942749, 17.31341438, 10.57771647, 14.67915543, 13.51614161, 17.54445708}},
		{0, []float64{13.69596138, 13.77142502, 13.8393423}},
	} {
		m := newHoltWinters(y, tc.period, len(tc.want))
		m.alpha, m.beta, m.gamma, m.damp = 0.3, 0.1, 0.2, 0.9
		got := make([]float64, len(tc.want))
		if err := m.Forecast(y, got); err != nil {
			t.Fatal(err)
		}
		for h, want := range tc.want {
			if math.Abs(got[h]-want) > 1e-8 {
				t.Errorf("period %d: %d steps ahead %v, want %v", tc.period, h+1, got[h], want)
			}
		}
	}
}

// TestRegressByHand: the standardized features of ±1 are z1 = (1, 1, −1, −1) and z2 = (1, −1, 1, −1),
// which are orthogonal. With y = (7, 3, 5, 1) and a penalty of 4, the weights are Σzy/(4+4) = 4/8 and
// 8/8, and the intercept is 16/(4+4).
func TestRegressByHand(t *testing.T) {
	x := [][]float64{{5, 30, 9}, {5, 10, 9}, {1, 30, 9}, {1, 10, 9}} // the third feature is constant
	r, err := regress(x, []float64{7, 3, 5, 1}, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{2 + 0.5 + 1, 2 + 0.5 - 1, 2 - 0.5 + 1, 2 - 0.5 - 1} {
		if got := r.at(x[i]); math.Abs(got-want) > 1e-12 {
			t.Errorf("row %d: %v, want %v", i, got, want)
		}
	}
	if got := r.at([]float64{3, 20, 1e6}); math.Abs(got-2) > 1e-12 {
		t.Errorf("a feature that was constant counts: %v, want 2", got)
	}
}
