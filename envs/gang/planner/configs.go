package planner

import (
	"sync"
)

// configurer configures windows of the step that a planner has loaded.
type configurer struct {
	allocator *Allocator
	search    bool     // by Allocator.Search in place of Configure
	kept      *configs // nil keeps nothing
	step      int      // that is loaded
}

// newConfigurer returns the configurer of a planner. What it computes is kept if the instance keeps configurations, and
// if it depends on the instance alone.
func newConfigurer(a *Allocator, cfg Config, in *Instance) *configurer {
	c := &configurer{allocator: a, search: cfg.LocalSearch}
	if cfg.Planned == nil && cfg.Learned == nil {
		c.kept = in.kept.Load()
	}
	return c
}

// configure writes the configuration of a window to levels, and returns the sum of its predicted durations.
func (c *configurer) configure(start, window int, levels []uint16) float64 {
	if c.kept == nil {
		return c.compute(start, window, levels)
	}
	return c.kept.configure(c, start, window, levels)
}

func (c *configurer) compute(start, window int, levels []uint16) float64 {
	if c.search {
		return c.allocator.Search(start, window, levels)
	}
	return c.allocator.Configure(start, window, levels)
}

// configs are the configurations that planners of one instance have asked for. They do not depend on penalties,
// discounts and horizons, so that planners that differ in these, as in a search for the best, have most in common.
type configs struct {
	columns, tasks int
	rows           []keptStep
}

// Keep lets planners made from now on keep the configurations that they compute, for other planners of the
// instance. They take up to 55 times 50 bytes a step for eight tasks and ten columns.
func (in *Instance) Keep() {
	tr := in.trace
	in.kept.CompareAndSwap(nil, &configs{tr.Columns, tr.Tasks, make([]keptStep, tr.Steps)})
}

// keptStep are the configurations of a step.
type keptStep struct {
	mu sync.Mutex
	by [2]keptWindows // greedy, and by search
}

// keptWindows are configurations by window, as [configs.index] counts them; nil until the first.
type keptWindows struct {
	known  []bool
	sums   []float64
	levels []uint16 // of shape (window, task)
}

// index counts windows by their end, and those of one end by their start.
func (*configs) index(start, window int) int {
	last := start + window - 1
	return last*(last+1)/2 + start
}

func (k *configs) configure(c *configurer, start, window int, levels []uint16) float64 {
	row := &k.rows[c.step]
	row.mu.Lock()
	defer row.mu.Unlock()
	greedy := row.by[0].at(k, k.index(start, window))
	greedy.compute(func(levels []uint16) float64 { return c.allocator.Configure(start, window, levels) })
	config := greedy
	if c.search { // from the greedy one
		config = row.by[1].at(k, k.index(start, window))
		config.compute(func(levels []uint16) float64 {
			copy(levels, greedy.levels)
			return c.allocator.improve(start, window, levels, *greedy.sum)
		})
	}
	copy(levels, config.levels)
	return *config.sum
}

// keptConfig points to a configuration.
type keptConfig struct {
	known  *bool
	sum    *float64
	levels []uint16
}

// at returns the configuration of window i.
func (w *keptWindows) at(k *configs, i int) keptConfig {
	if w.known == nil {
		windows := k.columns * (k.columns + 1) / 2
		w.known, w.sums, w.levels = make([]bool, windows), make([]float64, windows), make([]uint16, windows*k.tasks)
	}
	return keptConfig{&w.known[i], &w.sums[i], w.levels[i*k.tasks : (i+1)*k.tasks]}
}

// compute computes it unless it is known.
func (c keptConfig) compute(f func(levels []uint16) float64) {
	if !*c.known {
		*c.sum, *c.known = f(c.levels), true
	}
}
