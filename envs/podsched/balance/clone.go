package balance

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Clone implements [envs.Cloner].
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := newTask(t.src)
	t.copyInto(c)
	c.in = t.in.Clone()
	if t.spec != nil {
		c.spec = new(*t.spec)
	}
	if t.original != nil {
		c.original.CopyFrom(t.original)
	}
	c.nodeMeta = slices.Clone(t.nodeMeta)
	return c
}

// Resample implements [envs.Resampler].
func (t *Task) Resample(_ *cluster.State, r *rand.Rand) error { return t.in.Resample(t.cur+1, r) }
