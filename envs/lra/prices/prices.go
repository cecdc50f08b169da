// Package prices translates the actions of k8s/LRAPricing-v0: into prices of applications and, with online arrivals,
// rates. Both determine the best node for a container.
package prices

import (
	"context"
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// Sizes of actions. With online arrivals an action has RateActions more numbers than there are applications: the
// logarithms of two rates, in units of rateScale. Time is in mean lifetimes.
const (
	MaxAction   = 1 // bound of the numbers
	RateActions = 2
	rateScale   = 1.5 // of the logarithm
	offerRate   = 3.0 // at 0: rate at which a node is offered a container of each application
	Interest    = 1.0 // at 0: discount rate of the future
)

// Sweeps over the states of a node. After the first choice of an episode they continue from the last result.
const (
	firstSweeps = 40
	moreSweeps  = 10
)

// Prices at an action of 0, as the option base names them.
const (
	MeanValues = "mean_values"
	Duals      = "duals"
)

// Scale turns actions into prices and back.
type Scale struct {
	Base [lra.NumApps]float64 // prices at an action of 0
	Unit float64              // throughput of a container that an action of 1 adds to a price
}

// Prices sets pi to the prices of an action.
func (s *Scale) Prices(pi *[lra.NumApps]float64, action []float32) {
	for a := range pi {
		pi[a] = s.Base[a] + s.Unit*float64(action[a])
	}
}

// Rebase sets the prices at an action of 0 to the duals of the linear program of what is left, if there is anything.
func (s *Scale) Rebase(ctx context.Context, left *planner.Problem) (err error) {
	if len(left.Class) > 0 && left.Batch.Total() > 0 {
		s.Base, err = left.Duals(ctx)
	}
	return err
}

// Features writes the prices at an action of 0 to dst, as many as fit: half of 1 and what they exceed mean by, within 0
// and 1.
func (s *Scale) Features(dst []float32, mean *[lra.NumApps]float64) {
	for a := range dst {
		dst[a] = float32(min(max((1+s.Base[a]-mean[a])/2, 0), 1))
	}
}

// Action is the inverse of Prices, within the bounds of actions.
func (s *Scale) Action(dst []float32, pi *[lra.NumApps]float64) {
	for a, v := range pi {
		dst[a] = float32(min(max((v-s.Base[a])/s.Unit, -MaxAction), MaxAction))
	}
}

// Improve improves the worth of a node's states at prices pi and at the rates of an action, with more sweeps at
// the first choice of an episode.
func Improve(w *planner.Worth, m *planner.Model, pi *[lra.NumApps]float64, rates []float32, first bool) {
	sweeps := moreSweeps
	if first {
		sweeps = firstSweeps
	}
	w.Improve(m, offers(pi, rates), sweeps)
}

// offers returns the offers to a node at prices pi and at the rates of an action.
func offers(pi *[lra.NumApps]float64, rates []float32) *planner.Offers {
	return &planner.Offers{
		Prices: *pi, Rate: offerRate * math.Exp(rateScale*float64(rates[0])), Discount: Interest * math.Exp(rateScale*float64(rates[1])),
	}
}

// BestNode returns the node that gains most in worth with a container of app, among those that permit it.
func BestNode(w *planner.Worth, x planner.Placement, permits []bool, app int) int {
	best, bestGain := 0, math.Inf(-1)
	for i, s := range x {
		if next := s.Add(app); permits[i] {
			if gain := w[next] - w[s]; gain > bestGain {
				best, bestGain = i, gain
			}
		}
	}
	return best
}

// Constants are the parameters of the baseline constant: an action for every step.
type Constants struct {
	Redis    float64 `opt:"redis" doc:"action for the price of redis" valid:"-1,1" range:"-1,1"`
	MMS      float64 `opt:"mms" doc:"action for the price of mms" valid:"-1,1" range:"-1,1"`
	CKM      float64 `opt:"ckm" doc:"action for the price of ckm" valid:"-1,1" range:"-1,1"`
	YCSBA    float64 `opt:"ycsba" doc:"action for the price of ycsba" valid:"-1,1" range:"-1,1"`
	YCSBB    float64 `opt:"ycsbb" doc:"action for the price of ycsbb" valid:"-1,1" range:"-1,1"`
	ScD      float64 `opt:"scd" doc:"action for the price of scd" valid:"-1,1" range:"-1,1"`
	ISR      float64 `opt:"isr" doc:"action for the price of isr" valid:"-1,1" range:"-1,1"`
	Rate     float64 `opt:"rate" doc:"online: action for the rate of offers" valid:"-1,1" range:"-1,1"`
	Discount float64 `opt:"discount" doc:"online: action for the discount" valid:"-1,1" range:"-1,1"`
}

// action returns the action, within the bounds of actions.
func (c *Constants) action() (a [lra.NumApps + RateActions]float32) {
	for i, x := range []float64{c.Redis, c.MMS, c.CKM, c.YCSBA, c.YCSBB, c.ScD, c.ISR, c.Rate, c.Discount} {
		a[i] = float32(min(max(x, -MaxAction), MaxAction))
	}
	return a
}

// Policy returns the policy that takes the action, within the bounds of actions.
func (c *Constants) Policy() envs.Policy {
	fixed := c.action()
	return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
		copy(action, fixed[:])
		return nil
	}
}

// finishBranches bounds branch and bound for the last nodes.
const finishBranches = 300

// Finish fills the last nodes by the integer program.
func Finish(ctx context.Context, left *planner.Problem) (planner.Placement, error) {
	plan, err := left.Solve(ctx, planner.SolveOptions{Nodes: finishBranches})
	if err != nil {
		return nil, err
	}
	return plan.Placement, nil
}
