package hierarchical

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// Apply implements [envs.Task]. It goes down the tree by one level, and on the last level gives the container to the
// sub-cluster. If the sub-cluster is full, the container is lost. After the last container, Apply fills the
// sub-clusters and binds the pods.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	sub, ok := t.tree.Descend(int(action[0]))
	if !ok {
		return envs.Outcome{}, nil
	}
	app := int(t.queue[t.next])
	if t.totals[sub] < subSlots {
		t.parts[sub][app]++
		t.totals[sub]++
	} else {
		t.tally.Rejected++
		t.queue[t.next] = world.NoApp // so that no pod is bound
	}
	if t.next++; t.next < len(t.queue) {
		t.left[t.queue[t.next]]--
	}
	end := t.next == len(t.queue)
	reward, err := t.pay(ctx, c, sub, end)
	return envs.Outcome{Reward: reward, Terminated: end}, err
}

// fill lets the sub-scheduler fill a sub-cluster with its containers.
func (t *Task) fill(sub int) error {
	from, to := sub*subcluster.Nodes, (sub+1)*subcluster.Nodes
	x := t.x[from:to]
	clear(x)
	kind := t.src.Kinds[0]
	if t.totals[sub] > 0 {
		p := &planner.Problem{Models: kind.Forbidding, Class: t.src.Class[from:to], Batch: t.parts[sub]}
		if err := t.src.sub.Fill(p, x); err != nil {
			return fmt.Errorf("fill sub-cluster %d with %v: %w", sub, t.parts[sub], err)
		}
	}
	t.values[sub] = 0
	for _, s := range x {
		t.values[sub] += kind.Score.Value[s]
	}
	return nil
}

// finish fills all sub-clusters and binds the pods.
func (t *Task) finish(ctx context.Context, c cluster.Cluster) error {
	for sub := range t.parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.fill(sub); err != nil {
			return err
		}
	}
	t.ops = t.ops[:0]
	var node [lra.NumApps]int // nodes that the next container of each application may be bound to
	for pod, app := range t.queue {
		if app == world.NoApp {
			continue
		}
		n := &node[app]
		for t.bound[*n].Count(int(app)) == t.x[*n].Count(int(app)) {
			*n++
		}
		t.ops = append(t.ops, cluster.Op{Kind: cluster.Bind, Pod: int32(pod), Node: int32(*n)})
		next := t.bound[*n].Add(int(app))
		t.tally.Move(t.src.Kinds[0], t.bound[*n], next)
		t.bound[*n] = next
		t.tally.Placed++
	}
	return c.Apply(ctx, t.ops)
}
