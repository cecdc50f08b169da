package balance

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// scoreWeights are the weights of WeightedScores. Each score is from 0 to 100.
type scoreWeights struct {
	LeastAllocated     float64 `opt:"least_allocated" doc:"weight of LeastAllocated" range:"0,2"`
	BalancedAllocation float64 `opt:"balanced_allocation" doc:"weight of BalancedAllocation" range:"0,2"`
	HostSpread         float64 `opt:"host_spread" doc:"weight of PodTopologySpread over hostnames" range:"0,2"`
	RackSpread         float64 `opt:"rack_spread" doc:"weight of PodTopologySpread over racks" range:"0,2"`
	Cost               float64 `opt:"cost" doc:"weight of the objective's cost after the bind" range:"0,2"`
}

// weighing is a chooser by scoreWeights, with its scratch memory.
type weighing struct {
	weights    scoreWeights
	host, rack kube
	costs      []float64
}

func (w scoreWeights) newChooser(*Task) chooser {
	c := weighing{weights: w, rack: kube{rackSpread: true}}
	return c.choose
}

func (c *weighing) choose(t *Task, s *cluster.State, mask []bool) int {
	for _, k := range []*kube{&c.host, &c.rack} {
		k.permit(mask)
		k.spreadScores(t)
		kubescore.NormalizeSpread(k.spread)
	}
	c.costs = c.costs[:0]
	low, high := math.Inf(1), math.Inf(-1)
	for _, i := range c.host.nodes {
		cost := t.costIf(s, i)
		low, high = min(low, cost), max(high, cost)
		c.costs = append(c.costs, cost)
	}
	best, highest := 0, math.Inf(-1)
	for j, i := range c.host.nodes {
		v := c.weights.LeastAllocated*float64(leastAllocated(t, s, i)) + c.weights.BalancedAllocation*float64(balancedAllocation(t, s, i)) +
			c.weights.HostSpread*float64(c.host.spread[j]) + c.weights.RackSpread*float64(c.rack.spread[j])
		if high-low > rounding {
			v += c.weights.Cost * percent * (high - c.costs[j]) / (high - low)
		}
		if v > highest+rounding {
			best, highest = i, v
		}
	}
	return best
}
