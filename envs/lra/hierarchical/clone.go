package hierarchical

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

var _ envs.Cloner = (*Task)(nil)

// Clone implements [envs.Cloner].
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := *t
	c.own = new(pcg.Source)
	*c.own = *t.own
	c.rng = rand.New(c.own)
	c.queue, c.parts, c.totals = slices.Clone(t.queue), slices.Clone(t.parts), slices.Clone(t.totals)
	c.x, c.bound, c.values = slices.Clone(t.x), slices.Clone(t.bound), slices.Clone(t.values)
	c.ops = nil
	return &c
}
