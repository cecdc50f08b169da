package planner

import (
	"context"
	"math"
)

// segmentation divides the supersteps that an allocator has loaded into windows with one configuration each, by dynamic
// programming from the last superstep to the first.
type segmentation struct {
	allocator *Allocator
	configs   *configurer // of the allocator
	horizon   int
	maxWindow int
	power     []float64 // λ^w
	cost      []float64 // by superstep s: of the best division of s … horizon-1
	window    []int     // by superstep s: length of that division's first window
	first     []uint16  // configuration of the first window
	levels    []uint16  // scratch
}

func newSegmentation(c *configurer, horizon int, cfg Config) *segmentation {
	a := c.allocator
	g := &segmentation{
		allocator: a,
		configs:   c,
		horizon:   horizon,
		maxWindow: cfg.MaxWindow,
		power:     make([]float64, horizon+1),
		cost:      make([]float64, horizon),
		window:    make([]int, horizon),
		first:     make([]uint16, a.n),
		levels:    make([]uint16, a.n),
	}
	for w := range g.power {
		g.power[w] = math.Pow(cfg.Lambda, float64(w))
	}
	return g
}

// solve fills cost and window for an episode with left steps to go. A window's cost is its
// predicted duration times λ^w; a following window costs the penalty, and so does the
// first if charge is set. Of equally good windows the shortest wins.
//
// Two details are those of Kube_Gang_Scheduling (E. Wang, 2021): windows are bounded by the
// steps left at the first superstep, not at their own, so that they may reach beyond the
// episode, and a window that ends with the episode before the horizon pays the penalty of
// a successor. When ctx ends, solve returns early.
func (g *segmentation) solve(ctx context.Context, left int, penalty float64, charge bool) {
	clear(g.cost)
	for s := min(g.horizon, left) - 1; s >= 0; s-- {
		best := math.Inf(1)
		for w := 1; w <= min(g.horizon-s, left, g.maxWindow); w++ {
			if ctx.Err() != nil {
				return
			}
			cost := g.follow(w, s+w, penalty, g.configs.configure(s, w, g.levels))
			if cost >= best {
				continue
			}
			best, g.window[s] = cost, w
			if s == 0 {
				copy(g.first, g.levels)
			}
		}
		g.cost[s] = best
	}
	if charge {
		g.cost[0] += penalty
	}
}

// keep returns the least cost of keeping the levels in force for one or more supersteps, and for how many supersteps.
// It needs solve before it.
func (g *segmentation) keep(left int, penalty float64, levels []uint16) (best float64, kept int) {
	best = math.Inf(1)
	runtime := 0.0
	for k := 1; k <= min(g.horizon, left); k++ {
		runtime += g.allocator.Superstep(levels, k-1)
		if cost := g.follow(k, k, penalty, runtime); cost < best {
			best, kept = cost, k
		}
	}
	return best, kept
}

// follow returns the cost of a window of w supersteps, followed by the best division of the rest from superstep end on.
func (g *segmentation) follow(w, end int, penalty, runtime float64) float64 {
	cost := float64(g.power[w] * runtime)
	if end < g.horizon {
		cost += g.cost[end] + penalty
	}
	return cost
}
