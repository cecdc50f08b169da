package balance

import "github.com/kubernasium/kubernasium/envs"

var _ envs.FeatureNamer = (*Task)(nil)

// Names of what Observe writes, in its order. Hints add some, of forecasts for
// 10, 25, 50 and 100 % of the mean lifetime from now.
var (
	nodeNames = [nodeFeatures]string{
		"requested_cpu", "requested_memory", "used_cpu", "used_memory", "pods", "pod_cpu", "pod_memory",
		"allocatable_cpu", "allocatable_memory", "replicas_on_node", "replicas_in_rack", "rack_requested_cpu",
		"occupied", "fits", "rank_cpu", "rank_memory",
	}
	podNames = [podFeatures]string{
		"cpu", "memory", "replicas", "replicas_before", "cluster_requested_cpu", "cluster_requested_memory", "cluster_pods",
	}
	hintedNodeNames = append(nodeNames[:nodeFeatures:nodeFeatures],
		"cpu_after_10", "memory_after_10", "cpu_after_25", "memory_after_25", "cpu_after_50", "memory_after_50", "cpu_after_100", "memory_after_100",
		"excess", "excess_after_10", "excess_after_25", "excess_after_50", "excess_after_100")
	hintedPodNames = append(podNames[:podFeatures:podFeatures], "runs_after_10", "runs_after_25", "runs_after_50", "runs_after_100", "largest_excess")
)

// nodeNames returns the names of a node's features.
func (t *Task) nodeNames() []string {
	if t.forecasts != nil {
		return hintedNodeNames
	}
	return nodeNames[:]
}

// podNames returns the names of the pod's features.
func (t *Task) podNames() []string {
	if t.forecasts != nil {
		return hintedPodNames
	}
	return podNames[:]
}

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	f := []envs.Features{{Part: "nodes", Row: "node", Names: t.nodeNames()}, {Part: "pod", Names: t.podNames()}}
	if t.numEdges() > 0 {
		f = append(f, envs.Features{Part: "edges", Row: "edge", Names: []string{"source", "target"}},
			envs.Features{Part: "edge_mask", Row: "edge", Names: []string{"exists"}})
	}
	return f
}
