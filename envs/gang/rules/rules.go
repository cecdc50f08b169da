package rules

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// A Job is an environment in which a planner decides.
type Job interface {
	Instance() *planner.Instance // of the running episode
	Episode() planner.Episode    // the penalty may change from step to step
	Step() int                   // the next step of the trace
	Levels() []uint16            // in force
	Last() Superstep             // outcome of the previous superstep
	Windows() int                // longest window that an action names
	Plan(levels []uint16)        // sets the configuration of the next step, regardless of the action
}

// Superstep is the outcome of a superstep.
type Superstep struct {
	Replanned bool      // the shares were re-planned before it
	Changed   int       // tasks with changed shares
	Penalty   float64   // seconds that the plan cost
	Durations []float64 // true seconds of each task; valid until the next step
}

// A Follower is an environment whose own actions do not set the configuration, such as k8s/GangForecast-v0. Before each
// superstep of its [Job], a planner decides in place of the environment.
type Follower interface {
	Dynamics() Job
	Due() bool            // the next action is followed by a superstep
	Plan(levels []uint16) // changes the configuration before it
	Keep()                // keeps the configuration
}

// Baselines returns the planners as baselines. If no action names a configuration, a baseline sets it by [Job.Plan] and
// takes action 0, so that no planner is restricted.
func Baselines() []envs.Baseline { return slices.Clone(baselines) }

var baselines = slices.Concat(fixed(), dynamic(), learning(), horizonControl(), clairvoyant())

// fixed returns the planners that do not choose when to re-plan.
func fixed() []envs.Baseline {
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
	return list
}

// planBy returns a function that makes the policy of a planner. The policy makes a new planner for each episode.
func planBy(cfg planner.Config) func(envs.Task) (envs.Policy, error) {
	return func(task envs.Task) (envs.Policy, error) { return follow(cfg, task, nil) }
}

// follow returns the policy that follows a planner. It calls observe, unless nil, before each decision; first is true
// at the first decision of an episode.
func follow(cfg planner.Config, task envs.Task, observe func(j Job, first bool) error) (envs.Policy, error) {
	t, _ := task.(Job)
	follower, _ := task.(Follower)
	if follower != nil {
		t = follower.Dynamics()
	}
	if t == nil {
		return nil, fmt.Errorf("gang: a planner for a task of type %T", task)
	}
	cfg.Cost = func() float64 { return t.Episode().Penalty }
	var p planner.Planner
	next, begun := make([]uint16, len(t.Levels())), false
	return func(ctx context.Context, _ *cluster.State, first bool, action []float32) error {
		if first {
			var err error
			if p, err = planner.New(cfg, t.Instance(), t.Episode()); err != nil {
				return err
			}
			begun = false
		}
		clear(action)
		if follower != nil && !follower.Due() {
			return nil
		}
		if observe != nil {
			if err := observe(t, !begun); err != nil {
				return err
			}
			begun = true
		}
		w := p.Plan(ctx, t.Step(), t.Levels(), next)
		if err := ctx.Err(); err != nil {
			return err
		}
		switch {
		case follower != nil && w == 0:
			follower.Keep()
		case follower != nil:
			follower.Plan(next)
		case w == 0:
		case w > 0 && w <= t.Windows() && !cfg.LocalSearch && cfg.Learned == nil:
			action[0] = float32(w)
		default:
			t.Plan(next)
		}
		return nil
	}, nil
}
