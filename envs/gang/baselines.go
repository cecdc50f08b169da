package gang

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// baselines are the planners as rules for the environment. A configuration that no action
// names is set by [Task.Plan], beside action 0, so that every planner plays undiminished.
var baselines = plannerBaselines()

func plannerBaselines() []envs.Baseline {
	list := []envs.Baseline{
		{Name: planner.ControllerNever, Doc: "Keeps the start configuration: the least for each task.",
			New: planBy(planner.Config{Controller: planner.ControllerNever})},
		{Name: planner.ControllerEqualSplit, Doc: "Divides the cores evenly once.",
			New: planBy(planner.Config{Controller: planner.ControllerEqualSplit})},
		{Name: planner.ControllerEXPPO, Doc: "Configures once for a mean workload, as EXPPO does.",
			New: planBy(planner.Config{Controller: planner.ControllerEXPPO})},
	}
	for w := 1; w <= 9; w++ {
		list = append(list, envs.Baseline{
			Name: fmt.Sprintf("static_%d", w), Doc: fmt.Sprintf("Plans for the next %d supersteps after every %d.", w, w),
			New: planBy(planner.Config{Controller: planner.ControllerStatic, Window: w})})
	}
	return append(list,
		envs.Baseline{Name: planner.ControllerDynamicWindow, Doc: "Chooses the best window of the next ten supersteps, waits until it has passed, chooses the next.",
			New: planBy(planner.Config{Controller: planner.ControllerDynamicWindow, Window: planner.DefaultHorizon, Lambda: planner.DefaultLambda})},
		envs.Baseline{Name: planner.ControllerDynamicMPC, Doc: "Solves at every step whether to keep the configuration, and for which window to change it, over ten supersteps.",
			New: planBy(planner.Config{Controller: planner.ControllerDynamicMPC, Window: planner.DefaultHorizon, Lambda: planner.DefaultLambda})},
		envs.Baseline{Name: planner.ControllerExactMinMax, Doc: "Takes the shortest superstep that the cores allow at every step, knowing the true sizes and paying each time.", Oracle: true,
			New: planBy(planner.Config{Controller: planner.ControllerExactMinMax})},
		envs.Baseline{Name: planner.ControllerOneTime, Doc: "Plans all windows of the episode at once, knowing its true sizes.", Oracle: true,
			New: planBy(planner.Config{Controller: planner.ControllerOneTime, Lambda: 1})},
	)
}

// planBy returns the maker of the policy that follows a planner, which is made anew for each
// episode.
func planBy(cfg planner.Config) func(envs.Task) (envs.Policy, error) {
	return func(task envs.Task) (envs.Policy, error) {
		t, ok := task.(*Task)
		if !ok {
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
			action[0] = 0
			switch w := p.Plan(t.Step(), t.levels, next); {
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
