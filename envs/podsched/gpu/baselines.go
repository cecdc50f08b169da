package gpu

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// baselines are the heuristics as rules over a task. They choose the devices too, as no action
// can, so that none plays below what it is.
func baselines() []envs.Baseline {
	list := make([]envs.Baseline, len(policies))
	for i := range policies {
		p := &policies[i]
		list[i] = envs.Baseline{Name: p.name, Doc: p.doc, New: func(task envs.Task) (envs.Rule, error) {
			t, ok := task.(*Task)
			if !ok {
				return nil, fmt.Errorf("gpu: baseline %s cannot play %T", p.name, task)
			}
			var rule placer
			return func(_ context.Context, _ *cluster.State, first bool, action []float32) error {
				if first || rule == nil {
					rule = p.new(&t.board, t.in.outlook.reserve, t.drawer())
				}
				if t.current < 0 {
					return fmt.Errorf("gpu: %s: no pod is left", p.name)
				}
				node, devices := rule.choose(t.class(t.current))
				if node < 0 {
					return fmt.Errorf("gpu: %s: pod %d fits no node", p.name, t.current)
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
func (t *Task) drawer() intner { return rand.New(pcg.New(t.seed)).IntN }

// placer returns a policy by name for the task's board.
func (t *Task) placer(name string) (placer, error) {
	p, err := policyByName(name)
	if err != nil {
		return nil, err
	}
	return p.new(&t.board, t.in.outlook.reserve, t.drawer()), nil
}
