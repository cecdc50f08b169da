package balance

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Clone implements [envs.Cloner].
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := newTask(t.src)
	t.copyInto(c)
	c.in = t.in.clone()
	if t.spec != nil {
		spec := *t.spec
		c.spec = &spec
	}
	if t.original != nil {
		c.original.count, c.original.last = slices.Clone(t.original.count), t.original.last
	}
	c.nodeMeta = slices.Clone(t.nodeMeta)
	return c
}

// clone returns an independent copy, which draws the same pods.
func (in *instance) clone() *instance {
	c := *in
	c.src = new(pcg.Source)
	*c.src = *in.src
	c.rng = rand.New(c.src)
	c.nodes, c.pods = slices.Clone(in.nodes), slices.Clone(in.pods)
	return &c
}
