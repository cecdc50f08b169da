package gpu

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// baselines are the heuristics as rules over a task. They choose the devices too, as no action
// can, so that none plays below what it is.
func baselines() []envs.Baseline {
	list := make([]envs.Baseline, len(gpushare.Policies))
	for i := range gpushare.Policies {
		p := &gpushare.Policies[i]
		list[i] = envs.Baseline{Name: p.Name, Doc: p.Doc, New: func(task envs.Task) (envs.Policy, error) {
			t, ok := task.(*Task)
			if !ok {
				return nil, fmt.Errorf("gpu: baseline %s cannot play %T", p.Name, task)
			}
			var policy gpushare.Placer
			var reserve *gpushare.Reserve
			return func(_ context.Context, _ *cluster.State, first bool, action []float32) error {
				if first || policy == nil || reserve != t.in.Outlook.Reserve { // a running cluster's outlook is another at each decision
					reserve = t.in.Outlook.Reserve
					policy = p.New(&t.inventory, reserve, t.drawer())
				}
				if t.current < 0 {
					return fmt.Errorf("gpu: %s: no pod is left", p.Name)
				}
				node, devices := policy.Choose(t.class(t.current))
				if node < 0 {
					return fmt.Errorf("gpu: %s: pod %d fits no node", p.Name, t.current)
				}
				action[0] = float32(node)
				t.Plan(node, devices)
				return nil
			}, nil
		}}
	}
	return list
}

// drawer returns a generator for a policy that draws, of the episode's own.
func (t *Task) drawer() gpushare.Intn { return rand.New(pcg.New(t.seed)).IntN }

// placer returns a policy by name for the task's inventory.
func (t *Task) placer(name string) (gpushare.Placer, error) {
	p, err := gpushare.PolicyByName(name)
	if err != nil {
		return nil, err
	}
	return p.New(&t.inventory, t.in.Outlook.Reserve, t.drawer()), nil
}
