package pricing

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// Constants are the parameters of the baseline constant: an action that every step takes.
type Constants struct {
	Redis    float64 `opt:"redis" doc:"action for the price of redis" range:"-1,1"`
	MMS      float64 `opt:"mms" doc:"action for the price of mms" range:"-1,1"`
	CKM      float64 `opt:"ckm" doc:"action for the price of ckm" range:"-1,1"`
	YCSBA    float64 `opt:"ycsba" doc:"action for the price of ycsba" range:"-1,1"`
	YCSBB    float64 `opt:"ycsbb" doc:"action for the price of ycsbb" range:"-1,1"`
	ScD      float64 `opt:"scd" doc:"action for the price of scd" range:"-1,1"`
	ISR      float64 `opt:"isr" doc:"action for the price of isr" range:"-1,1"`
	Rate     float64 `opt:"rate" doc:"online: action for the rate of offers" range:"-1,1"`
	Discount float64 `opt:"discount" doc:"online: action for the discount" range:"-1,1"`
}

// action returns the action that c stands for, within the bounds of actions.
func (c *Constants) action() [lra.NumApps + rateActions]float32 {
	var a [lra.NumApps + rateActions]float32
	for i, v := range [...]float64{c.Redis, c.MMS, c.CKM, c.YCSBA, c.YCSBB, c.ScD, c.ISR, c.Rate, c.Discount} {
		a[i] = float32(min(max(v, -maxPriceAction), maxPriceAction))
	}
	return a
}

// constant makes policies that take the same action at every step.
func constant(c Constants) func(envs.Task) (envs.Policy, error) {
	fixed := c.action()
	return func(task envs.Task) (envs.Policy, error) {
		if _, ok := task.(*Task); !ok {
			return nil, notPricing(task)
		}
		return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
			copy(action, fixed[:])
			return nil
		}, nil
	}
}

func notPricing(task envs.Task) error {
	return fmt.Errorf("lra: a baseline of pricing for a task of type %T", task)
}

// pricing wraps a way to set prices as a policy.
func pricing(set func(t *Task, pi *[lra.NumApps]float64) error) func(envs.Task) (envs.Policy, error) {
	return func(task envs.Task) (envs.Policy, error) {
		t, ok := task.(*Task)
		if !ok {
			return nil, notPricing(task)
		}
		return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
			pi := t.src.base
			if err := set(t, &pi); err != nil {
				return err
			}
			clear(action)
			t.src.action(action, &pi)
			return nil
		}, nil
	}
}

// linear makes a baseline of prices that the linear program of what is left gives.
func linear(prices func(p *planner.Problem) ([lra.NumApps]float64, error)) func(envs.Task) (envs.Policy, error) {
	return pricing(func(t *Task, pi *[lra.NumApps]float64) error {
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
		*pi, err = prices(p)
		return err
	})
}

var baselines = []envs.Baseline{
	{Name: "mean_values", Doc: "Prices a container at what it adds to a node in the mean of all states.",
		New: pricing(func(*Task, *[lra.NumApps]float64) error { return nil })},
	{Name: "duals", Doc: "Prices by the duals of the linear program of what is left; with online arrivals, of what runs on average.",
		New: linear(func(p *planner.Problem) ([lra.NumApps]float64, error) {
			b, err := p.Bound()
			return b.Apps, err
		})},
	{Name: "rounded", Doc: "duals, moved a little so that the node takes the state that the linear program puts most nodes in.",
		New: linear((*planner.Problem).RoundingPrices)},
	constants,
	constants.Tuned("constant_tuned", "Takes the action that CMA-ES found for online arrivals at load 0.9 by the published profile (docs/results/lra.md, Constants).",
		map[string]any{"redis": -0.53, "mms": 0.43, "ckm": -0.04, "ycsba": -0.28, "ycsbb": -0.22, "scd": -0.20, "isr": -0.03, "rate": 0.74, "discount": -0.08}),
}

// constants is the baseline constant.
var constants = envs.Parametric(envs.Baseline{
	Name: "constant", Doc: "Takes one action at every step; without parameters that of mean_values.",
}, Constants{}, constant)
