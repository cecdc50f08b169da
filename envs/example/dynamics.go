package example

import (
	"context"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Apply implements [envs.Task]: it binds the pod to the node, if it fits there, and creates the next one.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	pod, node := int32(t.next), int32(action[0])
	fits := c.State().Fits(pod, node)
	first := c.State().Nodes[node].NumPods == 0
	t.ops = t.ops[:0]
	if fits {
		t.ops = append(t.ops, cluster.Op{Kind: cluster.Bind, Pod: pod, Node: node})
	}
	t.next++
	end := t.next == len(t.requests)
	if !end {
		t.ops = append(t.ops, t.arrival())
	}
	if err := c.Apply(ctx, t.ops); err != nil {
		return envs.Outcome{}, err
	}
	return envs.Outcome{Reward: t.reward(fits, first), Terminated: end}, nil
}
