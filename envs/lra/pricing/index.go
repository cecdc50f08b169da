package pricing

import (
	"context"
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
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
