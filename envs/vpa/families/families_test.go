package families

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// TestPoissonUpper: the tables of exact Poisson intervals give 3.689 for no event, 5.572 for one,
// 18.390 for ten.
func TestPoissonUpper(t *testing.T) {
	for k, want := range map[float64]float64{0: 3.689, 1: 5.572, 10: 18.390} {
		if got := poissonUpper(k); math.Abs(got-want) > 5e-4 {
			t.Errorf("poissonUpper(%v) = %v, want %v", k, got, want)
		}
	}
}

// TestMean: hand-worked, two models of three episodes.
func TestMean(t *testing.T) {
	metrics := func(slack, ooms float64) map[string]float64 {
		return map[string]float64{"slack_pct": slack, "throttled_pct": 8, "ooms": ooms, "evictions": 1}
	}
	first, err := NewPlays([]float64{1, 2, 3}, 2, metrics(20, 0))
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewPlays([]float64{3, 4, 5}, 4, metrics(40, 1./3))
	if err != nil {
		t.Fatal(err)
	}
	m := Mean([]Plays{first, second})
	if want := (Figures{3, 30, 8, 1. / 6, 1}); m.Figures != want || !slices.Equal(m.Costs, []float64{2, 3, 4}) {
		t.Errorf("means %+v, costs %v; want %+v and 2, 3, 4", m.Figures, m.Costs, want)
	}
	// One kill in three episodes: 5.572/3.
	if second.Kills() != 1 || math.Abs(second.KillsUpper()-5.572/3) > 2e-4 {
		t.Errorf("%v kills, at most %v an episode; want 1 and 1.857", second.Kills(), second.KillsUpper())
	}
	if _, err := NewPlays(nil, 0, map[string]float64{"ooms": 1}); err == nil || !strings.Contains(err.Error(), "want an environment of vertical pod autoscaling") {
		t.Errorf("without metrics: %v", err)
	}
}
