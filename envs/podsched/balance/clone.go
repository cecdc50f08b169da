package balance

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

// Clone implements [envs.Cloner].
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := newTask(t.src)
	t.copyInto(c)
	c.in = t.in.Clone()
	if t.spec != nil {
		spec := *t.spec
		c.spec = &spec
	}
	if t.original != nil {
		c.original.CopyFrom(t.original)
	}
	c.nodeMeta = slices.Clone(t.nodeMeta)
	return c
}
