package placement

import (
	"context"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// Apply implements [envs.Task]. It goes down the tree by one level, and on the last level places the container on the
// node. A container on a node that does not permit it stays pending for ever, except with full:remap.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	node, ok := t.tree.Descend(int(action[0]))
	if !ok {
		return envs.Outcome{}, nil
	}
	if t.remap() {
		node = t.to[node]
	}
	earned, end, err := t.ep.Place(ctx, c, node)
	if err != nil {
		return envs.Outcome{}, err
	}
	return t.outcome(earned, end), nil
}

// remap updates seen and to, and reports whether choices follow them.
func (t *Task) remap() bool {
	return t.src.remap && planner.Remap(t.ep, t.ep.Placement(), t.seen, t.to)
}
