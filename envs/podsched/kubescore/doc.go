// Package kubescore holds kube-scheduler's formulas for the scores of nodes, as plain functions of numbers, without
// pods, nodes or plugins. The environments below podsched build their baseline KubeDefault from them.
//
// A plugin gives each feasible node a raw score; some normalise the raw scores over the nodes;
// the node's final score is the sum of the plugins' scores, each from 0 to [MaxNodeScore], times
// their weights, and the highest wins. kube-scheduler breaks ties at random; the environments
// break them by the node's index, so that equal states give equal placements.
//
// Arithmetic is kube-scheduler's: int64, truncated at each division. For formulas that have changed since v1.20, the
// version of the GPU trace's reference simulator, the package has both forms.
//
// Source: kubernetes/kubernetes, pkg/scheduler/framework/plugins, of v1.20 and of v1.34. Since
// v1.35 BalancedAllocation compares the node with and without the pod; that form is not here.
package kubescore

// MaxNodeScore is the highest score that a plugin gives a node.
const MaxNodeScore = 100

// Weights of the score plugins that are now on by default. In v1.20 they are 2 for PodTopologySpread and 1 for the
// others.
const (
	TaintTolerationWeight    = 3
	NodeAffinityWeight       = 2
	PodTopologySpreadWeight  = 2
	InterPodAffinityWeight   = 2
	NodeResourcesFitWeight   = 1
	BalancedAllocationWeight = 1
	ImageLocalityWeight      = 1
)

// Requests that the NodeResourcesFit strategies assume for a container that states none. An explicit zero stays zero.
// BalancedAllocation uses the stated requests.
const (
	DefaultMilliCPURequest    = 100
	DefaultMemoryRequestBytes = 200 << 20
)
