package recommender

import (
	"math"
	"slices"
	"testing"
)

// TestAutopilot follows two models, without a margin and with one of 100 %, by hand. Bounds of buckets are 1, 2, 4, … 32;
// all half-lives are a window, so that d is a half.
func TestAutopilot(t *testing.T) {
	c := AutopilotConfig{Overrun: 2, Underrun: 1, Change: 0.3, Switch: 0.1, HalfLives: []float64{1}, Margins: []float64{0, 1}, Smoothing: 1,
		First: 1, Ratio: 2, Buckets: 6}
	a := NewAutopilot(c)
	for range 2 {
		for i, tc := range []struct {
			samples []float64
			limit   float64
			costs   [2]float64
		}{
			// All is in the bucket of 4. The model with a margin is at 8, and all of the samples are below.
			{[]float64{3, 4}, 4, [2]float64{0, 0.5}},
			// Faded fractions: 1/2 at 4 and 1/4 at 16. L' = 4 costs 2·1/4, and 16 costs 1/2 + 0.3: it stays.
			// Of this window half is above 4: 2/2. Half is above 8 and half below: 1 + 1/2.
			{[]float64{16, 16, 4, 4}, 4, [2]float64{0.5, 1}},
			// 1/4 at 4 and 5/8 at 16: 4 costs 5/4, 16 costs 1/4 + 0.3. The costs are 0.3 for the change, and 1 + 0.3.
			{[]float64{16}, 16, [2]float64{0.25 + 0.15, 0.5 + 0.65}},
			// 1/8, 5/16 and 1/2 at 32: 16 costs 1 + 1/8, 32 costs 7/16 + 0.3. Both models are at the last bucket, and change.
			{[]float64{32}, 32, [2]float64{0.2 + 0.15, 0.575 + 0.15}},
		} {
			got := a.Add(tc.samples)
			if got != tc.limit {
				t.Errorf("window %d: limit %v, want %v", i, got, tc.limit)
			}
			for k, want := range tc.costs {
				if math.Abs(a.models[k].cost-want) > 1e-12 {
					t.Errorf("window %d: model %d costs %v, want %v", i, k, a.models[k].cost, want)
				}
			}
		}
		a.Reset()
	}
}

// TestAutopilotSwitches: after 4, 4 and 8 the model without a margin, which stays at 4, costs 1/2, and the one with a margin,
// at 8, 3/8. It takes over if the switch costs less than an eighth.
func TestAutopilotSwitches(t *testing.T) {
	for toSwitch, want := range map[float64][]float64{0.1: {4, 4, 8}, 0.15: {4, 4, 4}} {
		a := NewAutopilot(AutopilotConfig{Overrun: 1, Underrun: 1, Switch: toSwitch, HalfLives: []float64{10}, Margins: []float64{0, 1}, Smoothing: 1,
			First: 1, Ratio: 2, Buckets: 6})
		var got []float64
		for _, v := range []float64{4, 4, 8} {
			got = append(got, a.Add([]float64{v}))
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %v for a switch the limits are %v, want %v", toSwitch, got, want)
		}
	}
}
