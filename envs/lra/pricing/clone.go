package pricing

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
)

var _ envs.Cloner = (*Task)(nil)

// Clone implements [envs.Cloner].
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := *t
	c.ep = t.ep.Clone()
	if t.worth != nil {
		c.worth = new(*t.worth)
	}
	c.placed = nil
	return &c
}
