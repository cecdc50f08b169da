package balance

import (
	"context"
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
)

// scoreWeights are the weights of WeightedScores. Each score is from 0 to 100.
type scoreWeights struct {
	LeastAllocated     float64 `opt:"least_allocated" doc:"weight of LeastAllocated" range:"0,2"`
	BalancedAllocation float64 `opt:"balanced_allocation" doc:"weight of BalancedAllocation" range:"0,2"`
	HostSpread         float64 `opt:"host_spread" doc:"weight of PodTopologySpread over hostnames" range:"0,2"`
	RackSpread         float64 `opt:"rack_spread" doc:"weight of PodTopologySpread over racks" range:"0,2"`
	Cost               float64 `opt:"cost" doc:"weight of the objective's cost after the bind" range:"0,2"`
}

// newChooser returns a chooser with the weights.
func (w scoreWeights) newChooser(*Task) chooser {
	host, rack, costs := kube{}, kube{rackSpread: true}, []float64{}
	return func(ctx context.Context, t *Task, s *cluster.State, mask []bool) int {
		host.spreadScores(t, mask)
		rack.spreadScores(t, mask)
		costs = costs[:0]
		all := imbalance.NewRange()
		for _, i := range host.nodes {
			if ctx.Err() != nil {
				return 0
			}
			costs = append(costs, t.costIf(s, i))
			all.Include(costs[len(costs)-1])
		}
		best, highest := 0, math.Inf(-1)
		for j, i := range host.nodes {
			v := w.LeastAllocated*float64(leastAllocated(t, s, i)) + w.BalancedAllocation*float64(balancedAllocation(t, s, i)) +
				w.HostSpread*float64(host.spread[j]) + w.RackSpread*float64(rack.spread[j]) + w.Cost*percent*(1-all.Position(costs[j]))
			if v > highest+imbalance.Rounding {
				best, highest = i, v
			}
		}
		return best
	}
}
