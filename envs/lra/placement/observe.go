package placement

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Observe implements [envs.Task].
func (t *Task) Observe(_ *cluster.State, obs []float32, mask []bool) {
	if !t.remap() {
		t.ep.Observe(&t.tree, t.ep.Rows(), obs, mask)
		return
	}
	for i, s := range t.seen {
		copy(t.shown[i*world.NodeFeatures:], t.ep.Row(i, s))
	}
	t.ep.Observe(&t.tree, t.shown, obs, mask)
	space.PermitAll(mask)
}
