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
	var list []envs.Baseline
	for i := range gpushare.Policies {
		p := &gpushare.Policies[i]
		list = append(list, baseline(p.Name, p.Doc, nil, func(t *Task) (gpushare.Placer, error) {
			return p.New(&t.inventory, t.in.Outlook.Reserve, t.drawer()), nil
		}))
	}
	return append(list, baseline("RolloutWeightedFGD",
		"WeightedFGD, improved by rollouts into futures drawn from the pods that have arrived.", rolloutsPlay, (*Task).rollouts))
}

// baseline returns the baseline that places pods by the placers of make. check, unless nil, refuses
// options.
func baseline(name, doc string, check func(o *Options) error, make func(t *Task) (gpushare.Placer, error)) envs.Baseline {
	return envs.Baseline{Name: name, Doc: doc, New: func(task envs.Task) (envs.Policy, error) {
		t, ok := task.(*Task)
		if !ok {
			return nil, fmt.Errorf("gpu: baseline %s cannot play %T", name, task)
		}
		if check != nil {
			if err := check(t.opts); err != nil {
				return nil, err
			}
		}
		var policy gpushare.Placer
		var reserve *gpushare.Reserve
		return func(_ context.Context, _ *cluster.State, first bool, action []float32) (err error) {
			if first || policy == nil || reserve != t.in.Outlook.Reserve { // a running cluster's outlook is another at each decision
				reserve = t.in.Outlook.Reserve
				if policy, err = make(t); err != nil {
					return err
				}
			}
			if t.current < 0 {
				return fmt.Errorf("gpu: %s: no pod is left", name)
			}
			node, devices := policy.Choose(t.class(t.current))
			if node < 0 {
				return fmt.Errorf("gpu: %s: pod %d fits no node", name, t.current)
			}
			action[0] = float32(node)
			t.Plan(node, devices)
			return nil
		}, nil
	}}
}

func rolloutsPlay(o *Options) error {
	if o.Dynamics == DynamicsTimed || o.Defer {
		return fmt.Errorf("gpu: RolloutWeightedFGD plays dynamics %s without option defer", DynamicsTimeFree)
	}
	return nil
}

func (t *Task) rollouts() (gpushare.Placer, error) {
	look, err := gpushare.NewLookahead(&t.inventory, t.in.Outlook.Reserve, t.src.Catalogue)
	c := gpushare.DefaultRollouts
	c.Until = t.opts.LoadEnd
	return gpushare.NewRollouts(look, c, t.past), err
}

// past returns the classes of the pods that have arrived, in new memory, and what they requested.
func (t *Task) past() (classes []int32, milliGPU int64) {
	for _, a := range t.in.Arrivals[:t.next] {
		if a.Class >= 0 { // else it is gone from a running cluster
			classes = append(classes, a.Class)
		}
	}
	return classes, t.arrived
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
