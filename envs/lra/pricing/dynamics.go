package pricing

import (
	"context"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
)

// applyArrivals places the next arrivals at the prices and rates of an action.
func (t *Task) applyArrivals(ctx context.Context, c cluster.Cluster, rates []float32) (envs.Outcome, error) {
	prices.Improve(t.worth, t.src.Kinds[0].Plan, &t.pi, rates, t.ep.Decided() == 0)
	var o envs.Outcome
	for range t.src.period {
		earned, end, err := t.ep.Place(ctx, c, prices.BestNode(t.worth, t.ep.Placement(), t.ep.Mask(), t.ep.App()))
		if err != nil {
			return o, err
		}
		o.Reward += t.reward.Pay(earned, end)
		if end {
			break
		}
	}
	return o, nil
}

// Apply implements [envs.Task].
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	t.scale.Prices(&t.pi, action)
	if t.ep.Online() {
		return t.applyArrivals(ctx, c, action[lra.NumApps:])
	}
	before := t.ep.Value
	t.placed = t.placed[:0]
	for range t.src.period {
		if t.node == len(t.ep.Placement()) || t.rest.Total() == 0 {
			break
		}
		if err := t.fill(ctx); err != nil {
			return envs.Outcome{}, err
		}
	}
	if err := c.Apply(ctx, t.placed); err != nil {
		return envs.Outcome{}, err
	}
	end := t.rest.Total() == 0
	if end {
		t.ep.Finish()
	}
	return t.outcome(before, end), t.rebase(ctx)
}

// left returns the problem of the remaining containers on the nodes still to fill.
func (t *Task) left() *planner.Problem {
	p := t.ep.Empty()
	p.Class, p.Batch = p.Class[t.node:], t.rest
	return p
}

// fill fills the next node, such that the nodes after it have room for the rest, or all of the last nodes.
func (t *Task) fill(ctx context.Context) error {
	nodes := len(t.ep.Placement()) - t.node
	if nodes > t.src.finish {
		t.fillNode(t.src.Kinds[0].Plan.BestFill(t.rest, &t.pi, t.rest.Total()-lra.MaxSlots*(nodes-1)))
		return nil
	}
	x, err := prices.Finish(ctx, t.left())
	for _, s := range x {
		t.fillNode(s)
	}
	return err
}

// fillNode puts the containers of state s on the next node.
func (t *Task) fillNode(s lra.State) {
	for a, k := range s.Counts() {
		for range k {
			t.placed = append(t.placed, cluster.Op{Kind: cluster.Bind, Pod: int32(t.first[a]), Node: int32(t.node)})
			t.first[a]++
		}
		t.rest[a] -= k
	}
	t.ep.Fill(t.node, s)
	t.node++
}
