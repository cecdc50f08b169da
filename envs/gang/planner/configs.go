package planner

import (
	"sync"
)

// configurer computes the configurations for windows of the loaded step.
type configurer struct {
	allocator *Allocator
	search    bool         // by Allocator.Search in place of Configure
	cache     *configCache // nil caches nothing
	step      int          // loaded step
}

// newConfigurer returns the configurer of a planner. It caches its results if the instance caches configurations and the
// results depend only on the instance.
func newConfigurer(a *Allocator, cfg Config, in *Instance) *configurer {
	c := &configurer{allocator: a, search: cfg.LocalSearch}
	if cfg.Planned == nil && cfg.Learned == nil {
		c.cache = in.cache.Load()
	}
	return c
}

// configure writes the configuration for a window to levels, and returns the sum of its predicted durations.
func (c *configurer) configure(start, window int, levels []uint16) float64 {
	if c.cache == nil {
		return c.compute(start, window, levels)
	}
	return c.cache.configure(c, start, window, levels)
}

func (c *configurer) compute(start, window int, levels []uint16) float64 {
	if c.search {
		return c.allocator.Search(start, window, levels)
	}
	return c.allocator.Configure(start, window, levels)
}

// configCache holds the configurations that planners of one instance compute. Configurations do not depend on penalties,
// discounts and horizons, so planners that differ only in these, as in a search for the best, share most of them.
type configCache struct {
	columns, tasks int
	rows           []cachedStep
}

// CacheConfigs lets planners made from now on share the configurations that they compute. For eight tasks and ten
// columns these take up to 55 times 50 bytes a step.
func (in *Instance) CacheConfigs() {
	tr := in.trace
	in.cache.CompareAndSwap(nil, &configCache{tr.Columns, tr.Tasks, make([]cachedStep, tr.Steps)})
}

// cachedStep holds the configurations of a step.
type cachedStep struct {
	mu sync.Mutex
	by [2]cachedWindows // greedy, and by search
}

// cachedWindows holds configurations by window, as [configCache.index] numbers them; it is nil until the first.
type cachedWindows struct {
	known  []bool
	sums   []float64
	levels []uint16 // of shape (window, task)
}

// index numbers windows by their end, and those with the same end by their start.
func (*configCache) index(start, window int) int {
	last := start + window - 1
	return last*(last+1)/2 + start
}

func (k *configCache) configure(c *configurer, start, window int, levels []uint16) float64 {
	row := &k.rows[c.step]
	row.mu.Lock()
	defer row.mu.Unlock()
	greedy := row.by[0].at(k, k.index(start, window))
	greedy.compute(func(levels []uint16) float64 { return c.allocator.Configure(start, window, levels) })
	config := greedy
	if c.search { // starts from the greedy one
		config = row.by[1].at(k, k.index(start, window))
		config.compute(func(levels []uint16) float64 {
			copy(levels, greedy.levels)
			return c.allocator.improve(start, window, levels, *greedy.sum)
		})
	}
	copy(levels, config.levels)
	return *config.sum
}

// cachedConfig points to a configuration.
type cachedConfig struct {
	known  *bool
	sum    *float64
	levels []uint16
}

// at returns the configuration of window i.
func (w *cachedWindows) at(k *configCache, i int) cachedConfig {
	if w.known == nil {
		windows := k.columns * (k.columns + 1) / 2
		w.known, w.sums, w.levels = make([]bool, windows), make([]float64, windows), make([]uint16, windows*k.tasks)
	}
	return cachedConfig{&w.known[i], &w.sums[i], w.levels[i*k.tasks : (i+1)*k.tasks]}
}

// compute computes the configuration unless it is known.
func (c cachedConfig) compute(f func(levels []uint16) float64) {
	if !*c.known {
		*c.sum, *c.known = f(c.levels), true
	}
}
