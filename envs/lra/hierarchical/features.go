package hierarchical

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

var _ envs.FeatureNamer = (*Task)(nil)

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	return []envs.Features{
		{Part: "nodes", Row: "subcluster", Names: append(world.PerApp("containers_"), "free_slots", "value")},
		{Part: "batch", Names: t.tree.BatchNames()},
	}
}
