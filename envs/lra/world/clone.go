package world

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Clone implements [envs.Cloner].
func (t *Task) Clone(*rand.Rand) envs.Task { return t.clone() }

func (t *Task) clone() *Task {
	c := newTask(t.src, t.fan, t.levels)
	own, rng, perm, seen, to, shown := c.own, c.rng, c.perm, c.seen, c.to, c.shown
	*c = *t
	*own = *t.own
	c.own, c.rng, c.perm, c.seen, c.to, c.shown = own, rng, perm, seen, to, shown
	c.x, c.forbid, c.queue = slices.Clone(t.x), slices.Clone(t.forbid), slices.Clone(t.queue)
	c.rows, c.mask = slices.Clone(t.rows), slices.Clone(t.mask)
	if t.heap != nil {
		heap := slices.Clone(*t.heap)
		c.heap = &heap
	}
	c.ops = nil
	return c
}

// Clone implements [envs.Cloner].
func (t *PricingTask) Clone(*rand.Rand) envs.Task {
	c := *t
	c.Task = t.Task.clone()
	if t.worth != nil {
		worth := *t.worth
		c.worth = &worth
	}
	c.placed = nil
	return &c
}

// Clone implements [envs.Cloner].
func (t *HierarchicalTask) Clone(*rand.Rand) envs.Task {
	c := *t
	c.own = new(pcg.Source)
	*c.own = *t.own
	c.rng = rand.New(c.own)
	c.queue, c.parts, c.totals = slices.Clone(t.queue), slices.Clone(t.parts), slices.Clone(t.totals)
	c.x, c.bound, c.values = slices.Clone(t.x), slices.Clone(t.bound), slices.Clone(t.values)
	c.ops = nil
	return &c
}
