package hierarchical

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

func init() {
	world.Register("k8s/LRAHierarchical-v0", "Divide long-running containers among sub-clusters of 27 nodes, which a sub-scheduler fills.",
		envs.Open(DefaultOptions, newSource, newTask), new(DefaultOptions()), baselines)
}
