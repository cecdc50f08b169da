package balance

import (
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
	"github.com/kubernasium/kubernasium/envs/podsched/lifetimes"
)

var _ envs.FeatureNamer = (*Task)(nil)

// Names of the features that Observe writes, in order, without hints and costs.
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

// featureNames are the names of a task's features; hints add those of package lifetimes, costs those of imbalance.
type featureNames struct{ node, pod []string }

func newFeatureNames(o *Options) featureNames {
	switch {
	case o.Hints == HintsLifetime:
		return featureNames{slices.Concat(nodeNames[:], lifetimes.NodeNames), slices.Concat(podNames[:], lifetimes.PodNames)}
	case o.Costs:
		return featureNames{slices.Concat(nodeNames[:], imbalance.NodeNames), slices.Concat(podNames[:], imbalance.PodNames)}
	}
	return featureNames{nodeNames[:], podNames[:]}
}

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	f := []envs.Features{{Part: "nodes", Row: "node", Names: t.names.node}, {Part: "pod", Names: t.names.pod}}
	if t.numEdges() > 0 {
		f = append(f, envs.Features{Part: "edges", Row: "edge", Names: []string{"source", "target"}},
			envs.Features{Part: "edge_mask", Row: "edge", Names: []string{"exists"}})
	}
	return f
}
