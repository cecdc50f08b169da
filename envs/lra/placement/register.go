package placement

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

func init() {
	world.Register("k8s/LRAPlacement-v0", "Place long-running containers that interfere with one another: choose a node for each.",
		envs.Open(DefaultOptions, newSource, newTask), new(DefaultOptions()), baselines)
	world.Register("k8s/LRASubcluster-v0", "Place long-running containers on a sub-cluster of 27 nodes by three choices among three.",
		envs.Open(DefaultSubclusterOptions, newSubclusterSource, newTask), new(DefaultSubclusterOptions()), baselines)
}
