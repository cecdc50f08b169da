package example

import (
	"context"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

var baselines = []envs.Baseline{
	{Name: "first_fit", Doc: "Takes the first node on which the pod fits.",
		New: lowest(func(*cluster.Node) int64 { return 0 })},
	{Name: "best_fit", Doc: "Takes the node with the least CPU left on which the pod fits.",
		New: lowest(func(n *cluster.Node) int64 { return n.Allocatable.MilliCPU - n.Requested.MilliCPU })},
}

// lowest makes a baseline that takes the node with the lowest cost among those that the pod fits, the first of equal
// ones, and node 0 if it fits none.
func lowest(cost func(n *cluster.Node) int64) func(envs.Task) (envs.Policy, error) {
	return envs.ForTask("example: a baseline of packing", func(t *Task) (envs.Policy, error) {
		return func(_ context.Context, s *cluster.State, _ bool, action []float32) error {
			best := -1
			for i := range s.Nodes {
				if s.Fits(int32(t.next), int32(i)) && (best < 0 || cost(&s.Nodes[i]) < cost(&s.Nodes[best])) {
					best = i
				}
			}
			action[0] = float32(max(best, 0))
			return nil
		}, nil
	})
}
