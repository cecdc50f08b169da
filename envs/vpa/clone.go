package vpa

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

// Clone implements [envs.Cloner]. The clone has no plan of a baseline.
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := *t
	c.gen, c.in, c.metrics, c.dynamics = t.gen.clone(), t.in.clone(), t.metrics.Clone(), t.dynamics.Clone()
	if c.dynamics.Node != nil {
		c.dynamics.Node.Drawn = &c.in.node
	}
	c.updater = t.updater.Clone()
	if t.feed != nil {
		c.feed = t.feed.Clone()
	}
	if t.base != nil {
		c.base = t.base.Clone()
	}
	c.plan = plan{}
	c.record = slices.Clone(t.record)
	return &c
}
