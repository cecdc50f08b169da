package planner_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// bestWindow returns the shortest window of all configurations within the budget.
func bestWindow(a *planner.Allocator, window int, levels []uint16, k, left int) float64 {
	if k == len(levels) {
		return a.Runtime(levels, 0, window)
	}
	best := math.Inf(1)
	for l := range left + 1 {
		levels[k] = uint16(l)
		best = min(best, bestWindow(a, window, levels, k+1, left-l))
	}
	return best
}

// TestSearchNearsBruteForce compares with all configurations of four tasks and twelve increments: a window of
// one superstep is exact, and longer ones lose at most a tenth of what the greedy configuration loses.
func TestSearchNearsBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	_, p := gangtest.LawProfile(t, 4)
	cfg := profile.DefaultModelConfig()
	cfg.IncrementMilliCPU, cfg.TotalMilliCPU = 450, 4000+12*450
	m, err := profile.NewModel(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := planner.NewAllocator(m, 5)
	sizes, levels, scratch := make([]float64, 20), make([]uint16, 4), make([]uint16, 4)
	for _, window := range []int{1, 2, 3, 5} {
		var greedy, search, best float64
		for range 20 {
			for i := range sizes {
				sizes[i] = 10 + 40*rng.Float64()
			}
			a.Load(sizes)
			g, b := a.Configure(0, window, levels), bestWindow(a, window, scratch, 0, m.Increments())
			s := a.Search(0, window, levels)
			if want := a.Runtime(levels, 0, window); math.Abs(s-want) > 1e-9*want || s > g || s < b-1e-9 {
				t.Errorf("window %d: Search = %v, its levels take %v, greedy %v, best %v", window, s, want, g, b)
			}
			sum := 0
			for _, l := range levels {
				sum += int(l)
			}
			if sum > m.Increments() {
				t.Errorf("window %d: Search spends %d of %d increments", window, sum, m.Increments())
			}
			if window == 1 && s != b {
				t.Errorf("Search = %v for one superstep, want %v", s, b)
			}
			greedy, search, best = greedy+g, search+s, best+b
		}
		t.Logf("window %d: greedy is %.2f %% above the best, Search %.2f %%", window, 100*(greedy/best-1), 100*(search/best-1))
		if greedy <= best || search-best > (greedy-best)/10 {
			t.Errorf("window %d: greedy %v, Search %v, best %v", window, greedy, search, best)
		}
	}
}
