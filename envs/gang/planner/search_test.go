package planner_test

import (
	"math"
	"math/rand/v2"
	"slices"
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

// naiveSearch is the search as [planner.Allocator.Search] describes it for windows of two supersteps and more, with
// every move evaluated from its levels.
func naiveSearch(a *planner.Allocator, m *profile.Model, sizes []float64, start, window int, levels []uint16) float64 {
	n := len(levels)
	sum := a.Configure(start, window, levels)
	slowest := func(task int) bool {
		for j := start; j < start+window; j++ {
			if m.DurationAt(task, sizes[j*n+task], int(levels[task])) == a.Superstep(levels, j) {
				return true
			}
		}
		return false
	}
	for {
		best, from, to, by := sum, 0, 0, uint16(0)
		for _, move := range []uint16{8, 4, 2, 1} {
			for t := range levels {
				for f := range levels {
					if f == t || levels[f] < move || !slowest(t) {
						continue
					}
					moved := slices.Clone(levels)
					moved[f] -= move
					moved[t] += move
					if d := a.Runtime(moved, start, window); d < best {
						best, from, to, by = d, f, t, move
					}
				}
			}
			if by > 0 {
				break
			}
		}
		if by == 0 || best >= sum*(1-1e-12) {
			return sum
		}
		sum = best
		levels[from] -= by
		levels[to] += by
	}
}

// TestSearchEqualsNaive: to the bit, on windows anywhere, with two tasks and with many, and with tasks that are equally slow.
func TestSearchEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 30))
	moved := 0
	for _, tasks := range []int{1, 2, 3, 8} {
		_, p := gangtest.LawProfile(t, tasks)
		cfg := profile.DefaultModelConfig()
		cfg.TotalMilliCPU = 3000 * tasks
		m, err := profile.NewModel(p, cfg)
		if err != nil {
			t.Fatal(err)
		}
		const columns = 10
		a := planner.NewAllocator(m, columns)
		sizes, got, want := make([]float64, columns*tasks), make([]uint16, tasks), make([]uint16, tasks)
		for range 12 {
			for i := range sizes {
				sizes[i] = 10 + 10*float64(rng.IntN(5)) // few sizes, so that supersteps repeat
			}
			a.Load(sizes)
			for _, w := range [][2]int{{0, 2}, {0, 10}, {3, 5}, {8, 2}, {2, 3}} {
				greedy := a.Configure(w[0], w[1], got)
				naive := naiveSearch(a, m, sizes, w[0], w[1], want)
				if d := a.Search(w[0], w[1], got); d != naive || !slices.Equal(got, want) {
					t.Fatalf("%d tasks, Search(%d, %d) = %v with %v, want %v with %v", tasks, w[0], w[1], d, got, naive, want)
				}
				if naive < greedy {
					moved++
				}
			}
		}
	}
	if moved < 50 {
		t.Errorf("%d searches found a shorter window, want at least 50 of 240", moved)
	}
}

// BenchmarkSearch searches a window of five supersteps of eight tasks.
func BenchmarkSearch(b *testing.B) {
	in := gangtest.LawInstance(b, 41, 100, 5, 8, false)
	a, levels := planner.NewAllocator(in.Model(), 5), make([]uint16, 8)
	a.Load(in.Planned(0))
	a.Search(0, 5, levels) // makes its scratch
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		a.Load(in.Planned(i % 100))
		a.Search(0, 5, levels)
	}
}
