package planner_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

func TestConfigureByHand(t *testing.T) {
	a := planner.NewAllocator(gangtest.HandModel(t), 2)
	a.Load([]float64{10, 10, 10, 30}) // supersteps with a 80 b 50, then a 80 b 150 on one core each
	levels := make([]uint16, 2)
	for _, test := range []struct {
		name          string
		start, window int
		want          []uint16
		sum           float64
	}{
		// a 80→60, a 60→40, then b 50→40 since it is the slowest.
		{"first", 0, 1, []uint16{2, 1}, 40},
		// b 150→120→90→60, and a stays at 80.
		{"second", 1, 1, []uint16{0, 3}, 80},
		// Three times b saves 0.95·30 in the second superstep and a only 20 in the first.
		{"both", 0, 2, []uint16{0, 3}, 160},
	} {
		sum := a.Configure(test.start, test.window, levels)
		if diff := cmp.Diff(test.want, levels); diff != "" || math.Abs(sum-test.sum) > 1e-9 {
			t.Errorf("%s: Configure(%d, %d) = %v, sum %v, want %v, %v", test.name, test.start, test.window, levels, sum, test.want, test.sum)
		}
		if got := a.Runtime(levels, test.start, test.window); math.Abs(got-test.sum) > 1e-9 {
			t.Errorf("%s: Runtime = %v, want %v", test.name, got, test.sum)
		}
	}
}

func TestStaticAndEqualByHand(t *testing.T) {
	m := gangtest.HandModel(t)
	levels := make([]uint16, 2)
	m.Static(levels) // size 30: a 240→180→120, then b 150→120
	if diff := cmp.Diff([]uint16{2, 1}, levels); diff != "" {
		t.Errorf("Static differs (-want +got):\n%s", diff)
	}
	m.Equal(levels) // three increments: one each, and the rest to the first task
	if diff := cmp.Diff([]uint16{2, 1}, levels); diff != "" {
		t.Errorf("Equal differs (-want +got):\n%s", diff)
	}
	cfg := m.Config()
	cfg.StaticMaxMilliCPU = 2000
	capped, err := profile.NewModel(m.Profile(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	capped.Static(levels) // both tasks reach the cap and one increment is left over
	if diff := cmp.Diff([]uint16{1, 1}, levels); diff != "" {
		t.Errorf("Static with a cap differs (-want +got):\n%s", diff)
	}
}

// naiveConfigure follows the published description word for word.
func naiveConfigure(m *profile.Model, sizes []float64, start, window int) []uint16 {
	n := m.NumTasks()
	levels := make([]uint16, n)
	for range m.Increments() {
		gains, order := map[int]float64{}, []int{}
		for j := range window {
			row := sizes[(start+j)*n : (start+j+1)*n]
			d, k := m.Superstep(row, levels)
			if _, ok := gains[k]; !ok {
				order = append(order, k)
			}
			gains[k] += math.Pow(m.Config().Discount, float64(j)) * (d - m.DurationAt(k, row[k], int(levels[k])+1))
		}
		best := order[0]
		for _, k := range order {
			if gains[k] > gains[best] {
				best = k
			}
		}
		levels[best]++
	}
	return levels
}

func TestConfigureEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{1, 2, 7, 8, 9, 17} {
		m := gangtest.LawModel(t, n)
		a := planner.NewAllocator(m, 12)
		sizes, got := make([]float64, 12*n), make([]uint16, n)
		for round := range 6 {
			for i := range sizes {
				sizes[i] = 5 + 50*rng.Float64()
				if round == 0 {
					sizes[i] = 30 // equal tasks: every choice is a tie
				}
			}
			a.Load(sizes)
			for _, window := range []int{1, 2, 3, 7, 12} {
				for _, start := range []int{0, (12 - window) / 2} {
					sum := a.Configure(start, window, got)
					if diff := cmp.Diff(naiveConfigure(m, sizes, start, window), got); diff != "" {
						t.Fatalf("%d tasks: Configure(%d, %d) differs (-want +got):\n%s", n, start, window, diff)
					}
					if want := a.Runtime(got, start, window); math.Abs(sum-want) > 1e-9*want {
						t.Errorf("%d tasks: Configure(%d, %d) = %v, want %v", n, start, window, sum, want)
					}
				}
			}
		}
	}
}

// bruteForce returns the shortest superstep of all configurations within the budget.
func bruteForce(m *profile.Model, sizes []float64, levels []uint16, k, left int) float64 {
	if k == len(levels) {
		d, _ := m.Superstep(sizes, levels)
		return d
	}
	best := math.Inf(1)
	for l := range left + 1 {
		levels[k] = uint16(l)
		best = min(best, bruteForce(m, sizes, levels, k+1, left-l))
	}
	return best
}

func TestExactMinMaxIsOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	_, p := gangtest.LawProfile(t, 4)
	cfg := profile.DefaultModelConfig()
	cfg.IncrementMilliCPU, cfg.TotalMilliCPU = 450, 4000+12*450 // levels off the knots of a bumpy profile
	m, err := profile.NewModel(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := planner.NewAllocator(m, 1)
	sizes, levels, scratch := make([]float64, 4), make([]uint16, 4), make([]uint16, 4)
	for range 40 {
		for i := range sizes {
			sizes[i] = 10 + 40*rng.Float64()
		}
		a.Load(sizes)
		got, want := a.ExactMinMax(0, levels), bruteForce(m, sizes, scratch, 0, m.Increments())
		if got != want {
			t.Errorf("sizes %v: ExactMinMax = %v, want %v", sizes, got, want)
		}
		sum := 0
		for _, l := range levels {
			sum += int(l)
		}
		if d, _ := m.Superstep(sizes, levels); d != got || sum > m.Increments() {
			t.Errorf("sizes %v: levels %v take %v and %d increments, want %v and at most %d", sizes, levels, d, sum, got, m.Increments())
		}
	}
}

func TestAllocatorAllocatesNothing(t *testing.T) {
	m := gangtest.LawModel(t, 8)
	a := planner.NewAllocator(m, 10)
	sizes, levels := make([]float64, 80), make([]uint16, 8)
	for i := range sizes {
		sizes[i] = 10 + float64(i%37)
	}
	if got := testing.AllocsPerRun(10, func() {
		a.Load(sizes)
		a.Configure(0, 1, levels)
		a.Configure(2, 7, levels)
		a.ExactMinMax(3, levels)
	}); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

func TestLoadPanicsOnPartColumns(t *testing.T) {
	a := planner.NewAllocator(gangtest.LawModel(t, 3), 2)
	for _, n := range []int{4, 9} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Load of %d sizes did not panic", n)
				}
			}()
			a.Load(make([]float64, n))
		}()
	}
}
