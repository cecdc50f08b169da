package gpu

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

// Clone implements [envs.Cloner]. What the copy remembers of placements it finds out anew.
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := *t
	c.in.Nodes, c.in.Arrivals = slices.Clone(t.in.Nodes), slices.Clone(t.in.Arrivals)
	c.nodes = slices.Clone(t.nodes)
	c.inventory = t.inventory.Clone()
	c.table = t.table.Of(&c.inventory)
	if t.curve != nil {
		c.curve = t.curve.Clone()
	}
	c.watch = views{slices.Clone(t.watch.rows), slices.Clone(t.watch.versions), slices.Clone(t.watch.pressure), slices.Clone(t.watch.edges)}
	c.queue, c.due, c.defers = slices.Clone(t.queue), slices.Clone(t.due), slices.Clone(t.defers)
	c.blocked, c.running = slices.Clone(t.blocked), slices.Clone(t.running)
	c.metas, c.podMetas = slices.Clone(t.metas), maps.Clone(t.podMetas)
	c.ops = nil
	return &c
}
