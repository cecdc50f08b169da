package gpu

import (
	"fmt"
	"strings"
)

// policy is a heuristic that can be asked for by name.
type policy struct {
	name, doc string
	score     scoreFunc // nil for those that look at all nodes at once
	new       func(b *board, r *reserve, draw intner) placer
}

func byScore(name, doc string, score scoreFunc) policy {
	return policy{name, doc, score, func(b *board, _ *reserve, _ intner) placer { return newScored(b, score) }}
}

// policies lists the heuristics in the order of reports.
var policies = []policy{
	{"Random", "A node at random among those where the pod fits.", anyNode,
		func(b *board, _ *reserve, draw intner) placer { return newRandom(b, draw) }},
	byScore("DotProd", "The node whose free CPU and GPU are least aligned with the request.", dotProd),
	byScore("GpuClustering", "A node that runs pods of the same kind (Gandiva).", gpuClustering),
	byScore("GpuPacking", "Shared devices first, then free ones on used nodes, then idle nodes.", gpuPacking),
	byScore("BestFit", "The node with the least CPU and GPU left.", bestFit),
	byScore("FGD", "Fragmentation gradient descent: the placement that adds the least fragmentation.", fgd),
	{"ScarcityFGD", "FGD that keeps GPU models free for the pods that can run on no other.", fgd,
		func(b *board, r *reserve, _ intner) placer { return newReserving(b, r) }},
	{"WeightedFGD", "FGD that weighs how scarce a GPU model is, and how well the pod fits, against fragmentation.", fgd,
		func(b *board, r *reserve, _ intner) placer { return newWeighing(b, r) }},
	byScore("MostAllocated", "kube-scheduler's bin packing of CPU and memory.", mostAllocated),
	byScore("KubeResources", "kube-scheduler's LeastAllocated and BalancedAllocation of CPU and memory.", kubeResources),
	{"KubeDefault", "kube-scheduler's default score plugins with today's weights; pods of equal shape are replicas of one controller.", kubeResources,
		func(b *board, _ *reserve, _ intner) placer {
			return newWeighted(b, kubeDefaultPlugins(b), (*board).tightest)
		}},
}

// PolicyNames returns the names of the heuristics.
func PolicyNames() []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].name
	}
	return names
}

func policyByName(name string) (*policy, error) {
	for i := range policies {
		if policies[i].name == name {
			return &policies[i], nil
		}
	}
	return nil, fmt.Errorf("gpu: policy %q, want one of %s", name, strings.Join(PolicyNames(), ", "))
}
