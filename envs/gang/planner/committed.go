package planner

import (
	"context"
	"slices"
)

// committedPlanner is committed horizon control. Commitment copies of fixed horizon control take turns:
// at each step one of them plans the next Window supersteps from its own configuration, and commits to
// the first Commitment of these. The configuration is the mean of theirs. With a commitment of 1 it
// is receding horizon control, with one of the whole window averaging fixed horizon control.
//
// The penalty is the same for large and small changes, unlike the norms of the sources, and so a mean that follows
// every copy's changes pays it often. Therefore the planner adopts the mean only if that is predicted to save Saving
// times the penalty in the next Commitment supersteps; with 0 it always does, as in the sources.
//
// Sources: M. Lin, Z. Liu, A. Wierman, L. Andrew, "Online Algorithms for Geographical Load Balancing",
// IGCC 2012 (receding and averaging fixed horizon control); N. Chen, J. Comden, Z. Liu, A. Gandhi,
// A. Wierman, "Using Predictions in Online Optimization: Looking Forward with an Eye on the Past",
// SIGMETRICS 2016 (committed horizon control).
type committedPlanner struct {
	planner
	seg    *segmentation
	copies [][]uint16 // by copy and superstep of its plan: levels, of shape (copy, Commitment·tasks)
	begun  []int      // by copy: the step at which its plan begins
	last   int        // the step of the last call
	sum    []int      // scratch, by task
}

func newCommittedPlanner(p planner) *committedPlanner {
	v, n := p.cfg.Commitment, p.in.trace.Tasks
	c := &committedPlanner{planner: p, seg: newSegmentation(p.configs, p.cfg.Window, p.cfg), begun: make([]int, v), last: -2, sum: make([]int, n)}
	for range v {
		c.copies = append(c.copies, make([]uint16, v*n))
	}
	return c
}

func (p *committedPlanner) Plan(ctx context.Context, t int, current, next []uint16) int {
	p.load(t)
	follows, v := t == p.last+1, p.cfg.Commitment
	p.last = t
	p.seg.solve(ctx, p.left(t), p.penalty(), p.ep.charges(t))
	if ctx.Err() != nil {
		return 0
	}
	if !follows { // the first call, or one after decisions of another planner
		for c := range p.copies { // each copy plans now, and again at its turn
			copy(p.copies[c], current)
			p.commit(c, t, p.copies[c][:len(current)])
		}
	} else {
		c := (t - p.ep.First) % v
		p.commit(c, t, p.levels(c, t-1))
	}
	p.mean(t, next)
	if slices.Equal(next, current) {
		return 0
	}
	if saved := p.cfg.Saving * p.penalty(); p.ep.charges(t) && saved > 0 {
		ahead := min(v, p.left(t))
		if p.allocator.Runtime(current, 0, ahead)-p.allocator.Runtime(next, 0, ahead) < saved {
			return 0
		}
	}
	return Custom
}

// levels returns the configuration of copy c at step t, at most Commitment steps after it planned.
func (p *committedPlanner) levels(c, t int) []uint16 {
	n := p.in.trace.Tasks
	i := (t - p.begun[c]) * n
	return p.copies[c][i : i+n]
}

// commit makes the plan of copy c at step t, from the copy's own levels.
func (p *committedPlanner) commit(c, t int, from []uint16) {
	n, left, v := len(from), p.left(t), p.cfg.Commitment
	p.begun[c] = t
	plan := p.copies[c]
	copy(plan, from) // from may be a later part of plan
	from = plan[:n]
	s := 0
	if cost, kept := p.seg.keep(left, p.penalty(), from); cost < p.seg.cost[0]*(1-tieMargin) {
		for ; s < min(kept, v); s++ {
			copy(plan[s*n:], from)
		}
	}
	for s < v && s < min(p.seg.horizon, left) {
		end := min(s+p.seg.window[s], v)
		p.configs.configure(s, p.seg.window[s], plan[s*n:(s+1)*n])
		for s++; s < end; s++ {
			copy(plan[s*n:(s+1)*n], plan[(s-1)*n:s*n])
		}
	}
	for ; s < v; s++ { // the episode ends first
		copy(plan[s*n:(s+1)*n], plan[max(s-1, 0)*n:])
	}
}

// mean writes the mean of the copies' configurations of step t. The increments that rounding down leaves go to the
// tasks with the largest remainders, the first of equal ones.
func (p *committedPlanner) mean(t int, next []uint16) {
	v, left := len(p.copies), 0
	clear(p.sum)
	for c := range p.copies {
		for k, l := range p.levels(c, t) {
			p.sum[k] += int(l)
		}
	}
	for k, sum := range p.sum {
		next[k] = uint16(sum / v)
		p.sum[k] = sum % v
		left += sum % v
	}
	for left /= v; left > 0; left-- {
		k := 0
		for i, r := range p.sum {
			if r > p.sum[k] {
				k = i
			}
		}
		next[k]++
		p.sum[k] = -1
	}
}

// thresholdPlanner re-plans for the next Window supersteps if the plan is predicted to save Saving times the penalty in
// them.
type thresholdPlanner struct{ planner }

func (p *thresholdPlanner) Plan(_ context.Context, t int, current, next []uint16) int {
	p.load(t)
	w := min(p.cfg.Window, p.left(t))
	planned := p.configs.configure(0, w, next)
	if p.ep.charges(t) && p.allocator.Runtime(current, 0, w)-planned < p.cfg.Saving*p.cost() {
		return 0
	}
	return w
}
