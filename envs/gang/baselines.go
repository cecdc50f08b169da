package gang

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// Baselines returns the planners as rules for an environment of this job.
func Baselines() []envs.Baseline { return slices.Clone(baselines) }

// baselines are the planners as rules for the environment. A configuration that no action
// names is set by [Task.Plan], beside action 0, so that every planner plays undiminished.
var baselines = plannerBaselines()

func plannerBaselines() []envs.Baseline {
	list := []envs.Baseline{
		{Name: planner.ControllerNever, Doc: "Keeps the start configuration: the least for each task.", New: planBy(planner.Config{Controller: planner.ControllerNever})},
		{Name: planner.ControllerEqualSplit, Doc: "Divides the cores evenly once.", New: planBy(planner.Config{Controller: planner.ControllerEqualSplit})},
		{Name: planner.ControllerEXPPO, Doc: "Configures once for a mean workload, as EXPPO does.", New: planBy(planner.Config{Controller: planner.ControllerEXPPO})},
	}
	for w := 1; w <= 9; w++ {
		list = append(list, envs.Baseline{
			Name: fmt.Sprintf("static_%d", w), Doc: fmt.Sprintf("Plans for the next %d supersteps after every %d.", w, w),
			New: planBy(planner.Config{Controller: planner.ControllerStatic, Window: w})})
	}
	mpc := dynamic(planner.ControllerDynamicMPC, "Solves at every step whether to keep the configuration, and for which window to change it, over the next supersteps, by default ten.")
	return append(list,
		dynamic(planner.ControllerDynamicWindow, "Chooses the best window of the next supersteps, by default ten, waits until it has passed, chooses the next."),
		mpc,
		mpc.Tuned("dynamic_mpc_tuned", "dynamic_mpc with the constants that `trainer tune --baseline dynamic_mpc:horizon=6` led to (docs/results/gang.md).",
			map[string]any{"lambda": 1.005, "penalty_factor": 1.8}),
		envs.Baseline{Name: planner.ControllerExactMinMax, Doc: "Takes the shortest superstep that the cores allow at every step, knowing the true sizes and paying each time.", Oracle: true,
			New: planBy(planner.Config{Controller: planner.ControllerExactMinMax})},
		envs.Baseline{Name: planner.ControllerOneTime, Doc: "Plans all windows of the episode at once, knowing its true sizes.", Oracle: true,
			New: planBy(planner.Config{Controller: planner.ControllerOneTime, Lambda: 1})},
	)
}

// dynamicParameters are the parameters of the dynamic planners.
type dynamicParameters struct {
	Lambda        float64 `opt:"lambda" doc:"factor per superstep by which the planner distrusts a predicted duration" range:"0.96,1.04"`
	PenaltyFactor float64 `opt:"penalty_factor" doc:"penalty that it plans with, as a multiple of the true one" range:"0.5,4,log"`
	Horizon       int     `opt:"horizon" doc:"supersteps that it looks ahead, at most ten" range:"4,10"`
}

// dynamic returns a dynamic planner as a baseline with the constants of its source.
func dynamic(controller, doc string) envs.Baseline {
	source := dynamicParameters{Lambda: planner.DefaultLambda, PenaltyFactor: 1, Horizon: planner.DefaultHorizon}
	return envs.Parametric(envs.Baseline{Name: controller, Doc: doc}, source, func(p dynamicParameters) func(envs.Task) (envs.Policy, error) {
		return planBy(planner.Config{Controller: controller, Window: p.Horizon, Lambda: p.Lambda, PenaltyFactor: p.PenaltyFactor})
	})
}

// A Follower is an environment of this job that decides in another way than [Task], whose superstep it
// executes. Planners decide in its place.
type Follower interface {
	Dynamics() *Task
	Due() bool            // the next action is followed by a superstep
	Plan(levels []uint16) // changes the configuration before it
	Keep()                // keeps the configuration
}

// planBy returns the maker of the policy that follows a planner, which is made anew for each
// episode.
func planBy(cfg planner.Config) func(envs.Task) (envs.Policy, error) {
	return func(task envs.Task) (envs.Policy, error) {
		t, _ := task.(*Task)
		follower, _ := task.(Follower)
		if follower != nil {
			t = follower.Dynamics()
		}
		if t == nil {
			return nil, fmt.Errorf("gang: a planner for a task of type %T", task)
		}
		var p planner.Planner
		next := make([]uint16, t.src.model.NumTasks())
		return func(_ context.Context, _ *cluster.State, first bool, action []float32) error {
			if first {
				var err error
				if p, err = planner.New(cfg, t.in, t.Episode()); err != nil {
					return err
				}
			}
			clear(action)
			if follower != nil && !follower.Due() {
				return nil
			}
			switch w := p.Plan(t.Step(), t.levels, next); {
			case follower != nil && w == 0:
				follower.Keep()
			case follower != nil:
				follower.Plan(next)
			case w == 0:
			case w > 0 && w <= t.opts.Windows:
				action[0] = float32(w)
			default:
				t.Plan(next)
			}
			return nil
		}, nil
	}
}
