package placement

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

var _ envs.FeatureNamer = (*Task)(nil)

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	row := "node"
	if t.tree.Levels() > 1 {
		row = "child"
	}
	return []envs.Features{
		{Part: "nodes", Row: row, Names: append(world.PerApp("containers_"), "free_slots", "value", "gain", "speed")},
		{Part: "batch", Names: t.tree.BatchNames()},
	}
}
