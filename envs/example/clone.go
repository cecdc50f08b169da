package example

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

var _ envs.Cloner = (*Task)(nil)

// Clone implements [envs.Cloner].
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := *t
	c.requests, c.ops = slices.Clone(t.requests), nil
	return &c
}
