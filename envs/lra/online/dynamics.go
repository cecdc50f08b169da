package online

import (
	"context"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Apply implements [envs.Task]. It places the container on the node and advances to the next arrival that some node
// permits. A container on a node without a free slot stays pending for ever.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	earned, end, err := t.ep.Place(ctx, c, int(action[0]))
	if err != nil {
		return envs.Outcome{}, err
	}
	return t.outcome(earned, end), nil
}
