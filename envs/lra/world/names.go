package world

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
)

var (
	_ envs.FeatureNamer = (*Task)(nil)
	_ envs.FeatureNamer = (*HierarchicalTask)(nil)
	_ envs.FeatureNamer = (*PricingTask)(nil)
)

// perApp returns a name for each application, after prefix.
func perApp(prefix string) []string {
	var names []string
	for _, app := range lra.Apps {
		names = append(names, prefix+app)
	}
	return names
}

// batchNames returns the names of the part batch, for so many levels of choice.
func batchNames(levels int) []string {
	names := append(perApp("container_is_"), perApp("remaining_")...)
	names = append(names, "remaining", "slots_used", "violations_left")
	if levels > 1 {
		for level := range levels {
			names = append(names, fmt.Sprintf("level_%d", level))
		}
	}
	return names
}

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	row := "node"
	if t.levels > 1 {
		row = "child"
	}
	return []envs.Features{
		{Part: "nodes", Row: row, Names: append(perApp("containers_"), "free_slots", "value", "gain", "speed")},
		{Part: "batch", Names: batchNames(t.levels)},
	}
}

// Features implements [envs.FeatureNamer].
func (t *HierarchicalTask) Features() []envs.Features {
	return []envs.Features{
		{Part: "nodes", Row: "subcluster", Names: append(perApp("containers_"), "free_slots", "value")},
		{Part: "batch", Names: batchNames(t.src.levels)},
	}
}

// Features implements [envs.FeatureNamer].
func (t *PricingTask) Features() []envs.Features {
	if t.heap != nil {
		return []envs.Features{{Names: append(perApp("running_"), "running", "vacant_nodes", "cluster_value")}}
	}
	return []envs.Features{{Names: append(perApp("remaining_"), "remaining", "nodes_left", "inverse_nodes_left")}}
}
