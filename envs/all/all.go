// Package all registers every environment of this module.
package all

import (
	_ "github.com/kubernasium/kubernasium/envs/classic"          // classic/CartPole-v1
	_ "github.com/kubernasium/kubernasium/envs/gang"             // k8s/GangWindow-v0
	_ "github.com/kubernasium/kubernasium/envs/gang/forecast"    // k8s/GangForecast-v0
	_ "github.com/kubernasium/kubernasium/envs/lra/hierarchical" // k8s/LRAHierarchical-v0
	_ "github.com/kubernasium/kubernasium/envs/lra/online"       // k8s/LRAOnline-v0
	_ "github.com/kubernasium/kubernasium/envs/lra/placement"    // k8s/LRAPlacement-v0, k8s/LRASubcluster-v0
	_ "github.com/kubernasium/kubernasium/envs/lra/pricing"      // k8s/LRAPricing-v0
	_ "github.com/kubernasium/kubernasium/envs/podsched/balance" // k8s/PodBalance-v0
	_ "github.com/kubernasium/kubernasium/envs/podsched/gpu"     // k8s/GPUPodScheduling-v0 and -v1
	_ "github.com/kubernasium/kubernasium/envs/vpa"              // k8s/VerticalPodAutoscaler-v0, -v1 and …Discrete-v0
)
