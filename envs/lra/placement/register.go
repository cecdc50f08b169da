package placement

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

func init() {
	envs.Register(&envs.Spec{
		ID:      "k8s/LRAPlacement-v0",
		Doc:     "Place long-running containers that interfere with one another: choose a node for each.",
		Open:    envs.Open(DefaultOptions, newSource, newTask),
		Options: new(DefaultOptions()), HeldOut: map[string]any{"split": world.SplitHeldOut}, RenderModes: []string{"ansi", "rgb_array"},
		Info: world.InfoColumns, Metrics: world.Metrics, Baselines: baselines,
	})
	envs.Register(&envs.Spec{
		ID:      "k8s/LRASubcluster-v0",
		Doc:     "Place long-running containers on a sub-cluster of 27 nodes by three choices among three.",
		Open:    envs.Open(DefaultSubclusterOptions, newSubclusterSource, newTask),
		Options: new(DefaultSubclusterOptions()), HeldOut: map[string]any{"split": world.SplitHeldOut}, RenderModes: []string{"ansi", "rgb_array"},
		Info: world.InfoColumns, Metrics: world.Metrics, Baselines: baselines,
	})
}
