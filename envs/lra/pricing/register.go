package pricing

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

func init() {
	envs.Register(&envs.Spec{
		ID:      "k8s/LRAPricing-v0",
		Doc:     "Price long-running containers, which then fill node after node for the highest surplus.",
		Open:    envs.Open(DefaultOptions, newSource, newTask),
		Options: new(DefaultOptions()), HeldOut: map[string]any{"split": world.SplitHeldOut}, RenderModes: []string{"ansi", "rgb_array"},
		Info: world.InfoColumns, Metrics: world.Metrics, Baselines: baselines,
	})
}
