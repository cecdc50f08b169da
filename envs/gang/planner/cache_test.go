package planner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// TestConfigurationsAreCached: a configurer without an allocator, which can compute nothing, gives what another has computed.
func TestConfigurationsAreCached(t *testing.T) {
	const columns, tasks = 4, 8
	m, err := profile.NewModel(profile.Generate(rand.New(rand.NewPCG(1, 2))), profile.DefaultModelConfig())
	if err != nil {
		t.Fatal(err)
	}
	tr := &Trace{Steps: 2, Columns: columns, Tasks: tasks, Planned: make([]float64, 2*columns*tasks), True: make([]float64, 2*tasks)}
	for i := range tr.Planned {
		tr.Planned[i] = 10 + float64(i*i*7%397)/10
	}
	in, err := NewInstance(t.Context(), m, tr, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Controller: ControllerThreshold, Window: columns}
	if c := newConfigurer(nil, cfg, in); c.cache != nil {
		t.Error("configurations are cached before CacheConfigs")
	}
	in.CacheConfigs()
	a := NewAllocator(m, columns)
	seen := map[float64]bool{}
	for _, search := range []bool{false, true} {
		cfg.LocalSearch = search
		computing, knowing := newConfigurer(a, cfg, in), newConfigurer(nil, cfg, in)
		for step := range tr.Steps {
			computing.step, knowing.step = step, step
			a.Load(in.Planned(step))
			for start := range columns {
				for window := 1; window <= columns-start; window++ {
					want, levels := make([]uint16, tasks), make([]uint16, tasks)
					sum := a.Configure(start, window, want)
					if search {
						sum = a.Search(start, window, want)
					}
					computing.configure(start, window, levels)
					clear(levels)
					if got := knowing.configure(start, window, levels); got != sum || !slices.Equal(levels, want) {
						t.Fatalf("search %v, step %d: configure(%d, %d) = %v with %v, want %v with %v", search, step, start, window, got, levels, sum, want)
					}
					seen[sum] = true
				}
			}
		}
	}
	if len(seen) < 30 { // of 40, so that none stands for another
		t.Errorf("%d different sums", len(seen))
	}
	cfg.Planned = in.Planned
	if c := newConfigurer(nil, cfg, in); c.cache != nil {
		t.Error("configurations for corrected forecasts are cached")
	}
	cfg.Planned, cfg.Learned = nil, in.Model
	if c := newConfigurer(nil, cfg, in); c.cache != nil {
		t.Error("configurations by a learned profile are cached")
	}
}
