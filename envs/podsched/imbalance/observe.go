package imbalance

import "math"

// Names of the features that [ObserveCosts] writes, of a node and of the pod.
var (
	NodeNames = []string{"excess"}
	PodNames  = []string{"largest_excess", "lowest_cost"}
)

// Excess and cost, in percent, at which the features largest_excess and lowest_cost reach 1.
const (
	maxExcess = 10
	maxCost   = 20
)

// ObserveCosts writes features in [0, 1] of the [Costs] of a pod by node: the excess to the last column of nodes, and
// the others to the end of pod. The excess of a node is its cost above that of the cheapest node that mask permits,
// over the largest excess of these. mask permits at least one node.
func ObserveCosts(nodes, pod []float32, costs []float64, mask []bool) {
	width := len(nodes) / len(mask)
	lowest, highest := math.Inf(1), math.Inf(-1)
	for i, ok := range mask {
		if ok {
			lowest, highest = min(lowest, costs[i]), max(highest, costs[i])
		}
	}
	unit := 0.0
	if highest-lowest > Rounding {
		unit = 1 / (highest - lowest)
	}
	pod = pod[len(pod)-len(PodNames):]
	pod[0], pod[1] = Share((highest-lowest)/maxExcess), Share(lowest/maxCost)
	for i := range mask {
		nodes[(i+1)*width-1] = Share((costs[i] - lowest) * unit)
	}
}
