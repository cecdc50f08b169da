package pricing

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
)

// pricing wraps a way to set prices as a policy.
func pricing(set func(t *Task, pi *[lra.NumApps]float64) error) func(envs.Task) (envs.Policy, error) {
	return func(task envs.Task) (envs.Policy, error) {
		t, ok := task.(*Task)
		if !ok {
			return nil, fmt.Errorf("lra: a baseline of pricing for a task of type %T", task)
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

var baselines = []envs.Baseline{
	{Name: "mean_values", Doc: "Prices a container at what it adds to a node in the mean of all states.",
		New: pricing(func(*Task, *[lra.NumApps]float64) error { return nil })},
	{Name: "duals", Doc: "Prices by the duals of the linear program of what is left; with online arrivals, of what runs on average.",
		New: pricing(func(t *Task, pi *[lra.NumApps]float64) error {
			p := t.ep.Empty()
			if p.Batch = t.rest; t.ep.Online() {
				for a := range p.Batch {
					p.Batch[a] = int(t.src.Scale) / lra.NumApps
				}
			} else {
				p.Class = p.Class[t.node:]
			}
			if len(p.Class) == 0 || p.Batch.Total() == 0 {
				return nil
			}
			b, err := p.Bound()
			if err != nil {
				return err
			}
			*pi = b.Apps
			return nil
		})},
}
