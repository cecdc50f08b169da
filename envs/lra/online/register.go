package online

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

func init() {
	world.Register("k8s/LRAOnline-v0", "Place long-running containers that come and go and interfere with one another: choose a node for each.",
		envs.Open(DefaultOptions, newSource, newTask), new(DefaultOptions()), baselines)
}
