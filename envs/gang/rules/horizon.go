package rules

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// recedingParameters are the parameters of receding horizon control.
type recedingParameters struct {
	Horizon       int     `opt:"horizon" doc:"supersteps that it looks ahead, at most ten" range:"2,10"`
	PenaltyFactor float64 `opt:"penalty_factor" doc:"penalty that it plans with, as a multiple of the true one" range:"0.5,4,log"`
	LocalSearch   bool    `opt:"local_search" doc:"configurations by local search above the greedy ones, exact for a window of one"`
}

// averagingParameters are the parameters of averaging fixed horizon control.
type averagingParameters struct {
	recedingParameters `opt:",squash"`
	Saving             float64 `opt:"saving" doc:"saving that is predicted for the committed supersteps, in penalties, from which a mean configuration is adopted; 0 adopts it always" range:"0,3"`
}

// committedParameters are the parameters of committed horizon control.
type committedParameters struct {
	averagingParameters `opt:",squash"`
	Commitment          int `opt:"commitment" doc:"supersteps to which a plan commits; no more than horizon, which bounds it" range:"1,10"`
}

// thresholdParameters are the parameters of the threshold rule.
type thresholdParameters struct {
	Window      int     `opt:"window" doc:"supersteps that it plans for, at most ten" range:"1,10"`
	Saving      float64 `opt:"saving" doc:"saving in these that is predicted, in penalties, from which it re-plans" range:"0.1,4,log"`
	LocalSearch bool    `opt:"local_search" doc:"configurations by local search above the greedy ones, exact for a window of one"`
}

// The horizon controllers of the literature. Their defaults are those of the sources: the true penalty, no discount,
// and means that are always adopted.
var (
	receding  = recedingParameters{Horizon: 6, PenaltyFactor: 1}
	averaging = averagingParameters{recedingParameters: recedingParameters{Horizon: 3, PenaltyFactor: 1}}
	committed = committedParameters{averagingParameters{recedingParameters: receding}, 2}
	threshold = thresholdParameters{Window: 3, Saving: 1}
)

func (p committedParameters) plan() func(envs.Task) (envs.Policy, error) {
	return planBy(planner.Config{
		Controller: planner.ControllerCommitted, Window: p.Horizon, Lambda: 1, PenaltyFactor: p.PenaltyFactor,
		Commitment: min(p.Commitment, p.Horizon), Saving: p.Saving, LocalSearch: p.LocalSearch,
	})
}

// horizonControl returns the controllers from the literature on online optimization with switching costs; package
// planner names the sources.
func horizonControl() []envs.Baseline {
	rhc := envs.Parametric(envs.Baseline{Name: "rhc", Doc: "Receding horizon control: plans the next supersteps at every step, and takes the plan's first."},
		receding, func(p recedingParameters) func(envs.Task) (envs.Policy, error) {
			return committedParameters{averagingParameters{recedingParameters: p}, 1}.plan()
		})
	afhc := envs.Parametric(envs.Baseline{Name: "afhc", Doc: "Averaging fixed horizon control: the mean of as many copies as the horizon has supersteps, each of which carries its plans out."},
		averaging, func(p averagingParameters) func(envs.Task) (envs.Policy, error) {
			return committedParameters{p, p.Horizon}.plan()
		})
	chc := envs.Parametric(envs.Baseline{Name: planner.ControllerCommitted, Doc: "Committed horizon control: the mean of copies, each of which carries the first supersteps of its plans out."},
		committed, committedParameters.plan)
	limit := envs.Parametric(envs.Baseline{Name: planner.ControllerThreshold, Doc: "Re-plans where the plan for the next supersteps is predicted to save enough in them."},
		threshold, func(p thresholdParameters) func(envs.Task) (envs.Policy, error) {
			return planBy(planner.Config{Controller: planner.ControllerThreshold, Window: p.Window, Saving: p.Saving, LocalSearch: p.LocalSearch})
		})
	const tuned = " with the constants that `trainer tune` found in 800,000 steps at a penalty of 15 s (docs/results/gang.md)."
	return []envs.Baseline{
		rhc, afhc, chc, limit,
		rhc.Tuned("rhc_tuned", "rhc"+tuned, map[string]any{"horizon": 10, "penalty_factor": 1.622, "local_search": true}),
		afhc.Tuned("afhc_tuned", "afhc"+tuned, map[string]any{"horizon": 3, "penalty_factor": 0.834, "saving": 2.925}),
		chc.Tuned("chc_tuned", "chc"+tuned, map[string]any{"horizon": 6, "penalty_factor": 1.119, "local_search": true, "saving": 0.9219, "commitment": 1}),
		limit.Tuned("threshold_tuned", "threshold"+tuned, map[string]any{"window": 3, "saving": 3.659}),
	}
}
