package published

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// TestDifferences: two models on two workloads, where the heuristic allocates 10 and 20.
func TestDifferences(t *testing.T) {
	run := func(alloc float64) gpushare.Run { return gpushare.Run{Alloc: []float64{alloc}} }
	base := &Row{Runs: []gpushare.Run{run(10), run(20)}}
	two := &Row{Models: 2, Runs: []gpushare.Run{run(11), run(23), run(8), run(24)}}
	if got := two.Differences(base, 0); len(got) != 2 || got[0] != 2 || got[1] != 1 {
		t.Errorf("%v, want the means of 1 and 3, and of -2 and 4", got)
	}
	alone := &Row{Models: 1, Runs: two.Runs[:2]}
	if got := alone.Differences(base, 0); len(got) != 2 || got[0] != 1 || got[1] != 3 {
		t.Errorf("%v of one model, want 1 and 3", got)
	}
}

// TestQuartiles: of four values the empirical distribution reaches a quarter, a half and three quarters at
// the first, the second and the third.
func TestQuartiles(t *testing.T) {
	var r Row
	for _, alloc := range []float64{4, 1, 3, 2} {
		r.Runs = append(r.Runs, gpushare.Run{Alloc: []float64{0, alloc}})
	}
	if low, median, high := r.Quartiles(1); low != 1 || median != 2 || high != 3 {
		t.Errorf("quartiles %v, %v, %v; want 1, 2, 3", low, median, high)
	}
}
