package lifetimes

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
)

// Names of the features that [Forecast.Observe] writes, of a node and of the pod. The numbers are percents of the mean
// lifetime.
var (
	NodeNames = []string{
		"cpu_after_10", "memory_after_10", "cpu_after_25", "memory_after_25", "cpu_after_50", "memory_after_50", "cpu_after_100", "memory_after_100",
		"excess", "excess_after_10", "excess_after_25", "excess_after_50", "excess_after_100",
	}
	PodNames = []string{
		"runs_after_10", "runs_after_25", "runs_after_50", "runs_after_100", "largest_excess",
		"lowest_cost", "lowest_cost_after_10", "lowest_cost_after_25", "lowest_cost_after_50", "lowest_cost_after_100",
	}
)

// Excess and costs, in percent, at which the features largest_excess and lowest_cost reach 1.
const (
	maxExcess = 10
	maxCost   = 20
)

// Observe writes features in [0, 1] to the last columns of each row of nodes and of pod. The excess of a node is its
// cost for the pod above that of the cheapest node that the mask permits. All excesses are relative to the largest, so
// that their weighted sums order nodes as weighted sums of the costs do. Without a pod all features are 0.
func (f *Forecast) Observe(nodes, pod []float32, mask []bool, noPod bool) {
	pod = pod[len(pod)-len(PodNames):]
	width := len(nodes) / len(mask)
	lowest, largest := f.excess(mask)
	unit := 0.0
	if largest > imbalance.Rounding {
		unit = 1 / largest
	}
	for k, p := range f.runs[1:] {
		pod[k] = unitFloat(p)
	}
	pod[NumHorizons-1] = unitFloat(largest / maxExcess)
	for k, cost := range lowest {
		pod[NumHorizons+k] = unitFloat(cost / maxCost)
	}
	for i := range mask {
		row := nodes[(i+1)*width-len(NodeNames) : (i+1)*width]
		for k := range Horizons {
			if k > 0 {
				row[2*k-2], row[2*k-1] = unitFloat(f.cpu[k][i]), unitFloat(f.memory[k][i])
			}
			row[2*(NumHorizons-1)+k] = unitFloat((f.cost[k][i] - lowest[k]) * unit)
		}
		if noPod {
			clear(row)
		}
	}
	if noPod {
		clear(pod)
	}
}

// excess returns, for each horizon, the lowest cost of the permitted nodes, and the largest difference between the
// highest and the lowest cost.
func (f *Forecast) excess(mask []bool) (lowest [NumHorizons]float64, largest float64) {
	for k, cost := range f.cost {
		low, high := math.Inf(1), math.Inf(-1)
		for i, ok := range mask {
			if ok {
				low, high = min(low, cost[i]), max(high, cost[i])
			}
		}
		lowest[k], largest = low, max(largest, high-low)
	}
	return lowest, largest
}

// unitFloat clips x to [0, 1].
func unitFloat(x float64) float32 { return float32(min(max(x, 0), 1)) }
