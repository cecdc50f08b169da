package seriesforecast_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/seriesforecast"
	"github.com/kubernasium/kubernasium/envs/gang/series"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// wave returns n hourly values of a daily wave with noise that fades from step to step.
func wave(n int) []float64 {
	rng := rand.New(pcg.New(1))
	values, noise := make([]float64, n), 0.0
	for t := range values {
		noise = 0.6*noise + 0.3*rng.NormFloat64()
		values[t] = 20 + 5*math.Sin(2*math.Pi*float64(t%24)/24) + noise
	}
	return values
}

// TestLearned fits a series whose changes follow a law that no season knows: each value is 0.8 times
// the value of seven steps ago with the opposite sign, plus noise of standard deviation 1. Forecasts up
// to seven steps ahead by the law have that error. Repeating the last value is off by √(2·1/(1−0.64)) at
// least, as the values of less than seven steps apart are independent.
func TestLearned(t *testing.T) {
	rng := rand.New(pcg.New(5))
	values := make([]float64, 1400)
	for i := range values {
		values[i] = rng.NormFloat64()
		if i >= 7 {
			values[i] -= 0.8 * values[i-7]
		}
	}
	const first, rows, horizon = 1000, 380, 5
	truth := series.Truth(values, first, rows, horizon)
	for model, atMost := range map[string]float64{seriesforecast.Ridge: 1.15, seriesforecast.LSTM: 1.6} {
		m, err := seriesforecast.Fit(context.Background(), seriesforecast.Config{Model: model, Horizon: horizon, Seed: 2}, values[:first])
		if err != nil {
			t.Fatal(err)
		}
		forecasts, err := seriesforecast.Rows(context.Background(), m, values, first, rows, horizon)
		if err != nil {
			t.Fatal(err)
		}
		e, err := seriesforecast.Measure(forecasts, truth)
		if err != nil {
			t.Fatal(err)
		}
		for h, got := range e.Units {
			if got > atMost {
				t.Errorf("%s (%s): off by %.3f at %d steps ahead, want at most %v; the law is off by 1", model, m.Describe(), got, h+1, atMost)
			}
		}
		t.Logf("%s: %.3f", model, e.Units)
	}
}

// TestEqualBits: equal seeds give equal forecasts, and others do not.
func TestEqualBits(t *testing.T) {
	values := wave(500)
	of := func(seed uint64) []float64 {
		m, err := seriesforecast.Fit(context.Background(), seriesforecast.Config{Model: seriesforecast.LSTM, Day: 24, Horizon: 6, Seed: seed}, values[:400])
		if err != nil {
			t.Fatal(err)
		}
		rows, err := seriesforecast.Rows(context.Background(), m, values, 400, 50, 6)
		if err != nil {
			t.Fatal(err)
		}
		return rows.Values
	}
	one := of(1)
	if diff := cmp.Diff(one, of(1)); diff != "" {
		t.Errorf("trained again with the same seed:\n%s", diff)
	}
	if cmp.Equal(one, of(2)) {
		t.Error("another seed gives the same forecasts")
	}
}

// TestMeasureByHand: the true values of the columns span 4 and 2, so a unit is 10 and 20 sizes.
func TestMeasureByHand(t *testing.T) {
	truth := &series.Rows{Columns: 3, Values: []float64{0, 1, 9, 4, 3, 8}}
	forecasts := &series.Rows{Columns: 2, Values: []float64{1, 1, 4, 1}}
	got, err := seriesforecast.Measure(forecasts, truth)
	if err != nil {
		t.Fatal(err)
	}
	want := seriesforecast.Errors{Units: []float64{math.Sqrt(0.5), math.Sqrt2}, Sizes: []float64{10 * math.Sqrt(0.5), 20 * math.Sqrt2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := seriesforecast.Measure(forecasts, &series.Rows{Columns: 2, Values: []float64{0, 1, 0, 3}}); err == nil {
		t.Error("a column without a scale is measured")
	}
}
