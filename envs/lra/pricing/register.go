package pricing

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

func init() {
	world.Register("k8s/LRAPricing-v0", "Price long-running containers, which then fill node after node for the highest surplus.",
		envs.Open(DefaultOptions, newSource, newTask), new(DefaultOptions()), baselines)
}
