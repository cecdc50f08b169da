// Package all registers every environment of this module.
package all

import (
	_ "github.com/kubernasium/kubernasium/envs/classic" // classic/CartPole-v1
	_ "github.com/kubernasium/kubernasium/envs/gang"    // k8s/GangWindow-v0
	_ "github.com/kubernasium/kubernasium/envs/lra"     // k8s/LRAPlacement-v0, k8s/LRASubcluster-v0, k8s/LRAHierarchical-v0
)
