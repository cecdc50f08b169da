package balance

import "github.com/kubernasium/kubernasium/envs"

var _ envs.FeatureNamer = (*Task)(nil)

// Names of what Observe writes, in its order.
var (
	nodeNames = [nodeFeatures]string{
		"requested_cpu", "requested_memory", "used_cpu", "used_memory", "pods", "pod_cpu", "pod_memory",
		"allocatable_cpu", "allocatable_memory", "replicas_on_node", "replicas_in_rack", "rack_requested_cpu",
		"occupied", "fits", "rank_cpu", "rank_memory",
	}
	podNames = [podFeatures]string{
		"cpu", "memory", "replicas", "replicas_before", "cluster_requested_cpu", "cluster_requested_memory", "cluster_pods",
	}
)

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	f := []envs.Features{{Part: "nodes", Row: "node", Names: nodeNames[:]}, {Part: "pod", Names: podNames[:]}}
	if t.numEdges() > 0 {
		f = append(f, envs.Features{Part: "edges", Row: "edge", Names: []string{"source", "target"}},
			envs.Features{Part: "edge_mask", Row: "edge", Names: []string{"exists"}})
	}
	return f
}
