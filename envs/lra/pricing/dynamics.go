package pricing

import (
	"context"
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// With online arrivals an action has two more numbers: the logarithms, in units of rateScale, of
// two rates. Time is in mean lifetimes.
const (
	rateActions = 2
	rateScale   = 1.5 // of the logarithm
	offerRate   = 3.0 // at 0: how often a node is offered a container of each application
	interest    = 1.0 // at 0: discount rate of the future
)

// Sweeps over the states of a node. After the first choice of an episode they start from the last result.
const (
	firstSweeps = 40
	moreSweeps  = 10
)

// finishBranches bounds branch and bound for the last nodes.
const finishBranches = 300

// applyArrivals places the next arrivals at the prices and the rates of an action.
func (t *Task) applyArrivals(ctx context.Context, c cluster.Cluster, rates []float32) (envs.Outcome, error) {
	sweeps := moreSweeps
	if t.ep.Decided() == 0 {
		sweeps = firstSweeps
	}
	t.worth.Improve(t.src.Kinds[0].Plan, &planner.Offers{
		Prices: t.pi, Rate: offerRate * math.Exp(rateScale*float64(rates[0])), Discount: interest * math.Exp(rateScale*float64(rates[1])),
	}, sweeps)
	var o envs.Outcome
	for range t.src.period {
		earned, end, err := t.ep.Place(ctx, c, t.bestNode())
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

// bestNode returns the node that gains most in worth with the container to place.
func (t *Task) bestNode() int {
	best, bestGain, app := 0, math.Inf(-1), t.ep.App()
	permits := t.ep.Mask()
	for i, s := range t.ep.Placement() {
		if next := s.Add(app); permits[i] {
			if gain := t.worth[next] - t.worth[s]; gain > bestGain {
				best, bestGain = i, gain
			}
		}
	}
	return best
}

// Apply implements [envs.Task].
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	t.src.prices(&t.pi, action)
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
	return t.outcome(before, end), nil
}

// left returns the problem of the containers that are left, on the nodes to be filled.
func (t *Task) left() *planner.Problem {
	p := t.ep.Empty()
	p.Class, p.Batch = p.Class[t.node:], t.rest
	return p
}

// fill fills the next node, so that the nodes after it have room for the rest, or all of the last nodes.
func (t *Task) fill(ctx context.Context) error {
	nodes := len(t.ep.Placement()) - t.node
	if nodes > t.src.finish {
		t.fillNode(t.src.Kinds[0].Plan.BestFill(t.rest, &t.pi, t.rest.Total()-lra.MaxSlots*(nodes-1)))
		return nil
	}
	plan, err := t.left().Solve(ctx, planner.SolveOptions{Nodes: finishBranches})
	if err != nil {
		return err
	}
	for _, s := range plan.Placement {
		t.fillNode(s)
	}
	return nil
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
