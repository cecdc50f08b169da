package pricing

import (
	"context"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
)

// constant makes policies that take the same action at every step.
func constant(c prices.Constants) func(envs.Task) (envs.Policy, error) {
	return envs.ForTask("lra: a baseline of pricing", func(*Task) (envs.Policy, error) { return c.Policy(), nil })
}

// pricing makes a policy of a function that sets prices.
func pricing(set func(ctx context.Context, t *Task, pi *[lra.NumApps]float64) error) func(envs.Task) (envs.Policy, error) {
	return envs.ForTask("lra: a baseline of pricing", func(t *Task) (envs.Policy, error) {
		return func(ctx context.Context, _ *cluster.State, _ bool, action []float32) error {
			pi := t.src.scale.Base // also where actions add to duals
			if err := set(ctx, t, &pi); err != nil {
				return err
			}
			clear(action)
			t.scale.Action(action, &pi)
			return nil
		}, nil
	})
}

// linear makes a baseline that takes the prices of the linear program of the remaining containers.
func linear(of func(*planner.Problem, context.Context) ([lra.NumApps]float64, error)) func(envs.Task) (envs.Policy, error) {
	return pricing(func(ctx context.Context, t *Task, pi *[lra.NumApps]float64) error {
		p := t.left()
		if t.ep.Online() {
			for a := range p.Batch {
				p.Batch[a] = int(t.src.Scale) / lra.NumApps
			}
		}
		if len(p.Class) == 0 || p.Batch.Total() == 0 {
			return nil
		}
		var err error
		*pi, err = of(p, ctx)
		return err
	})
}

var baselines = []envs.Baseline{
	{Name: "mean_values", Doc: "Prices a container at what it adds to a node in the mean of all states.",
		New: pricing(func(context.Context, *Task, *[lra.NumApps]float64) error { return nil })},
	{Name: "duals", Doc: "Prices by the duals of the linear program of what is left; with online arrivals, of what runs on average.",
		New: linear((*planner.Problem).Duals)},
	{Name: "rounded", Doc: "duals, moved a little so that the node takes the state that the linear program puts most nodes in.",
		New: linear((*planner.Problem).RoundingPrices)},
	constants,
	constants.Tuned("constant_tuned", "Takes the action that CMA-ES found for online arrivals at load 0.9 by the published profile (docs/results/lra.md, Constants).",
		prices.TunedPublished),
}

// constants is the baseline constant.
var constants = envs.Parametric(envs.Baseline{
	Name: "constant", Doc: "Takes one action at every step; without parameters that of mean_values.",
}, prices.Constants{}, constant)
