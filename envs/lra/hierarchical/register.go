package hierarchical

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

func init() {
	envs.Register(&envs.Spec{
		ID:      "k8s/LRAHierarchical-v0",
		Doc:     "Divide long-running containers among sub-clusters of 27 nodes, which a sub-scheduler fills.",
		Open:    envs.Open(DefaultOptions, newSource, newTask),
		Options: new(DefaultOptions()), HeldOut: map[string]any{"split": world.SplitHeldOut}, RenderModes: []string{"ansi", "rgb_array"},
		Info: world.InfoColumns, Metrics: world.Metrics, Baselines: baselines,
	})
}
