package rules

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang/online"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// dynamicParameters are the parameters of the dynamic planners.
type dynamicParameters struct {
	Lambda        float64 `opt:"lambda" doc:"factor per superstep by which the planner distrusts a predicted duration" range:"0.96,1.04"`
	PenaltyFactor float64 `opt:"penalty_factor" doc:"penalty that it plans with, as a multiple of the true one" range:"0.5,4,log"`
	Horizon       int     `opt:"horizon" doc:"supersteps that it looks ahead, at most ten" range:"4,10"`
	LocalSearch   bool    `opt:"local_search" doc:"configurations by local search above the greedy ones, exact for a window of one"`
}

// dynamic returns the planners of Kube_Gang_Scheduling and its fork, with the constants of their source.
func dynamic() []envs.Baseline {
	mpc := dynamicOf(planner.ControllerDynamicMPC, "Solves at every step whether to keep the configuration, and for which window to change it, over the next supersteps, by default ten.")
	return []envs.Baseline{
		dynamicOf(planner.ControllerDynamicWindow, "Chooses the best window of the next supersteps, by default ten, waits until it has passed, chooses the next."),
		mpc,
		mpc.Tuned("dynamic_mpc_tuned", "dynamic_mpc with the constants that `trainer tune --baseline dynamic_mpc:horizon=6` led to (docs/results/gang.md).",
			map[string]any{"lambda": 1.005, "penalty_factor": 1.8}),
	}
}

func dynamicOf(controller, doc string) envs.Baseline {
	source := dynamicParameters{Lambda: planner.DefaultLambda, PenaltyFactor: 1, Horizon: planner.DefaultHorizon}
	return envs.Parametric(envs.Baseline{Name: controller, Doc: doc}, source, func(p dynamicParameters) func(envs.Task) (envs.Policy, error) {
		return planBy(p.config(controller))
	})
}

func (p dynamicParameters) config(controller string) planner.Config {
	return planner.Config{Controller: controller, Window: p.Horizon, Lambda: p.Lambda, PenaltyFactor: p.PenaltyFactor, LocalSearch: p.LocalSearch}
}

// oneTimeParameters are the parameters of one_time.
type oneTimeParameters struct {
	LocalSearch bool `opt:"local_search" doc:"configurations by local search above the greedy ones, exact for a window of one"`
}

// clairvoyant returns the planners that know the true sizes.
func clairvoyant() []envs.Baseline {
	return []envs.Baseline{
		{Name: planner.ControllerExactMinMax, Doc: "Takes the shortest superstep that the cores allow at every step, knowing the true sizes and paying each time.", Clairvoyant: true,
			New: planBy(planner.Config{Controller: planner.ControllerExactMinMax})},
		envs.Parametric(envs.Baseline{Name: planner.ControllerOneTime, Doc: "Plans all windows of the episode at once, knowing its true sizes.", Clairvoyant: true},
			oneTimeParameters{}, func(p oneTimeParameters) func(envs.Task) (envs.Policy, error) {
				return planBy(planner.Config{Controller: planner.ControllerOneTime, Lambda: 1, LocalSearch: p.LocalSearch})
			}),
	}
}

// onlineParameters are the parameters of a dynamic planner that learns.
type onlineParameters struct {
	dynamicParameters `opt:",squash"`
	Caution           float64 `opt:"caution" doc:"standard deviations by which it expects uncertain durations to be longer" range:"-1,2"`
	Noise             float64 `opt:"noise" doc:"standard deviation of the logarithm of an observed duration" range:"0.01,0.3,log"`
	Scale             float64 `opt:"scale" doc:"standard deviation of the error of the logarithm of a task's durations, before observations" range:"0.05,1,log"`
	Share             float64 `opt:"share" doc:"… of the exponent of its shares" range:"0.05,1,log"`
}

// learning returns dynamic_mpc_online, which refines the profile from observed durations.
func learning() []envs.Baseline {
	prior := online.DefaultConfig()
	defaults := onlineParameters{
		dynamicParameters: dynamicParameters{Lambda: 1.005, PenaltyFactor: 1.8, Horizon: planner.DefaultHorizon},
		Noise:             prior.Noise, Scale: prior.Scale, Share: prior.Share,
	}
	b := envs.Baseline{Name: "dynamic_mpc_online", Doc: "dynamic_mpc_tuned, with a profile that it refines by the durations of past supersteps."}
	return []envs.Baseline{envs.Parametric(b, defaults, func(p onlineParameters) func(envs.Task) (envs.Policy, error) {
		return p.policy
	})}
}

func (p onlineParameters) policy(task envs.Task) (envs.Policy, error) {
	cfg, prior := p.config(planner.ControllerDynamicMPC), online.DefaultConfig()
	prior.Noise, prior.Scale, prior.Share = p.Noise, p.Scale, p.Share
	var learner *online.Learner
	var model *profile.Model
	cfg.Learned = func() *profile.Model { return model }
	return follow(cfg, task, func(j Job, first bool) (err error) {
		in := j.Instance()
		switch {
		case first && learner != nil && learner.Base() == in.Model():
			learner.Reset()
		case first:
			if learner, err = online.NewLearner(prior, in.Model()); err != nil {
				return err
			}
		}
		if t := j.Step(); t > j.Episode().First {
			for k, size := range in.True(t - 1) { // the levels in force are those of the last superstep
				if err := learner.Observe(k, size, float64(in.Model().MilliCPU(int(j.Levels()[k]))), j.Last().Durations[k]); err != nil {
					return err
				}
			}
		}
		model, err = learner.Model(p.Caution)
		return err
	})
}
