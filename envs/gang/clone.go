package gang

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

// Clone implements [envs.Cloner]. The instance is shared: episodes do not change it.
func (t *Task) Clone(rng *rand.Rand) envs.Task {
	c := *t
	c.rng = rng
	c.levels, c.next, c.pods = slices.Clone(t.levels), slices.Clone(t.next), slices.Clone(t.pods)
	c.keep, c.durations = slices.Clone(t.keep), slices.Clone(t.durations)
	c.ops = nil
	return &c
}
