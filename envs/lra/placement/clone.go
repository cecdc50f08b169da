package placement

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
)

var _ envs.Cloner = (*Task)(nil)

// Clone implements [envs.Cloner].
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := newTask(t.src)
	c.ep, c.tree, c.reward = t.ep.Clone(), t.tree, t.reward
	return c
}
