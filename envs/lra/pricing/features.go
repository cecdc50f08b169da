package pricing

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

var _ envs.FeatureNamer = (*Task)(nil)

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	if t.ep.Online() {
		return []envs.Features{{Names: append(world.PerApp("running_"), "running", "vacant_nodes", "cluster_value")}}
	}
	names := append(world.PerApp("remaining_"), "remaining", "nodes_left", "inverse_nodes_left")
	return []envs.Features{{Names: append(names, world.PerApp("dual_")...)[:t.src.shape]}}
}
