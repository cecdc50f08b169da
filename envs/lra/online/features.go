package online

import (
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

var _ envs.FeatureNamer = (*Task)(nil)

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	return []envs.Features{
		{Part: "nodes", Row: "node", Names: slices.Concat(world.PerApp("containers_"), []string{"free_slots", "index"}, world.PerApp("margin_"), world.PerApp("margin_after_"))},
		{Part: "cluster", Names: slices.Concat(world.PerApp("container_is_"), world.PerApp("running_"), []string{"running"}, world.PerApp("largest_index_"), world.PerApp("third_index_"), world.PerApp("tenth_index_"))},
	}
}
