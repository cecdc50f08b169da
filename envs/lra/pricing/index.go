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

// Sweeps over the states of a node. They stop when no worth changes by more than sweepTolerance; after
// the first choice of an episode they start from the last result.
const (
	firstSweeps    = 40
	moreSweeps     = 10
	sweepTolerance = 1e-3
)

// rents sets the worth from which sweeps start: the value of a state, paid for one lifetime.
func rents(m *planner.Model, worth *[lra.NumStates]float64) {
	for s := range worth {
		worth[s] = m.Value[s] / (1 + interest)
	}
}

// index improves worth towards the worth of a node in each state. The node sells the throughput of
// its containers, pays pi for one of each application while it runs, is offered one of each at
// rate offers, and loses each at rate 1; the future is discounted at rate discount.
//
// Source: the relaxation that prices the arrivals makes the nodes independent decision
// problems: Whittle, "Restless bandits: activity allocation in a changing world", Journal of
// Applied Probability 25A, 1988.
func index(m *planner.Model, worth *[lra.NumStates]float64, pi *[lra.NumApps]float64, offers, discount float64, sweeps int) {
	var price [lra.NumApps]float64 // of a container, as of its arrival
	for a, v := range pi {
		price[a] = v / (1 + discount)
	}
	for range sweeps {
		change := 0.0
		for s := lra.State(lra.NumStates - 1); s >= 0; s-- {
			sum, rate, here := m.Value[s], discount, worth[s]
			for a := range lra.NumApps {
				if next := m.Next[s][a]; next != lra.NoState {
					if v := worth[next] - price[a]; v > here {
						sum += offers * v
						rate += offers
					}
				}
				if k := s.Count(a); k > 0 {
					sum += float64(k) * worth[s.Remove(a)]
					rate += float64(k)
				}
			}
			v := sum / rate
			change = max(change, math.Abs(v-here))
			worth[s] = v
		}
		if change < sweepTolerance {
			return
		}
	}
}

// applyArrivals places the next arrivals at the prices and the rates of an action.
func (t *Task) applyArrivals(ctx context.Context, c cluster.Cluster, rates []float32) (envs.Outcome, error) {
	sweeps := moreSweeps
	if t.ep.Decided() == 0 {
		sweeps = firstSweeps
	}
	index(t.src.Kinds[0].Plan, t.worth, &t.pi, offerRate*math.Exp(rateScale*float64(rates[0])), interest*math.Exp(rateScale*float64(rates[1])), sweeps)
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
