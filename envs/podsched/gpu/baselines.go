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

// baselines returns the heuristics. They also choose the devices, which no action can, so that none is restricted.
func baselines() []envs.Baseline {
	var list []envs.Baseline
	for i := range gpushare.Policies {
		p := &gpushare.Policies[i]
		b := envs.Baseline{Name: p.Name, Doc: p.Doc, New: newPolicy(p.Name, func(t *Task) (gpushare.Placer, error) {
			return p.New(&t.inventory, t.in.Outlook.Reserve, t.drawer()), nil
		})}
		if p.Name == "WeightedFGD" {
			b = envs.Parametric(b, gpushare.DefaultWeights, weightedFGD)
			list = append(list, b, b.Tuned("WeightedFGDSharing", "WeightedFGD with weights for pods that all share GPUs: trainer tune -n 2000000 with sharing:1 and multi_gpu:0.", gpushare.SharingWeights))
			continue
		}
		list = append(list, b)
	}
	return append(list, envs.Parametric(envs.Baseline{
		Name: rolloutName, Doc: "WeightedFGD, improved by rollouts into futures drawn from the pods that have arrived.",
	}, gpushare.DefaultRollouts, rollouts))
}

func weightedFGD(w gpushare.Weights) func(envs.Task) (envs.Policy, error) {
	return newPolicy("WeightedFGD", func(t *Task) (gpushare.Placer, error) {
		return gpushare.NewWeightedFGD(&t.inventory, t.in.Outlook.Reserve, w), nil
	})
}

const rolloutName = "RolloutWeightedFGD"

func rollouts(c gpushare.RolloutConfig) func(envs.Task) (envs.Policy, error) {
	play := newPolicy(rolloutName, func(t *Task) (gpushare.Placer, error) { return t.rollouts(c) })
	return func(task envs.Task) (envs.Policy, error) {
		if t, ok := task.(*Task); ok && !t.canRollOut() {
			return nil, fmt.Errorf("gpu: %s plays dynamics %s without option defer", rolloutName, DynamicsTimeFree)
		}
		if err := c.Check(); err != nil {
			return nil, err
		}
		return play(task)
	}
}

// newPolicy returns the policies of a baseline that places pods with the placers that make returns.
func newPolicy(name string, make func(t *Task) (gpushare.Placer, error)) func(envs.Task) (envs.Policy, error) {
	return func(task envs.Task) (envs.Policy, error) {
		t, ok := task.(*Task)
		if !ok {
			return nil, fmt.Errorf("gpu: baseline %s cannot play %T", name, task)
		}
		var policy gpushare.Placer
		var reserve *gpushare.Reserve
		return func(_ context.Context, _ *cluster.State, first bool, action []float32) (err error) {
			if first || policy == nil || reserve != t.in.Outlook.Reserve { // a running cluster changes the outlook
				reserve = t.in.Outlook.Reserve
				if policy, err = make(t); err != nil {
					return err
				}
			}
			if t.current < 0 { // no action matters
				action[0] = 0
				return nil
			}
			node, devices := policy.Choose(t.class(t.current))
			if node < 0 {
				return fmt.Errorf("gpu: %s: pod %d fits no node", name, t.current)
			}
			action[0] = float32(node)
			t.Plan(node, devices)
			return nil
		}, nil
	}
}

// drawer returns a random generator for a policy, seeded by the episode.
func (t *Task) drawer() gpushare.Intn { return rand.New(pcg.New(t.seed)).IntN }

// placer returns the policy called name for the task's inventory.
func (t *Task) placer(name string) (gpushare.Placer, error) {
	p, err := gpushare.PolicyByName(name)
	if err != nil {
		return nil, err
	}
	return p.New(&t.inventory, t.in.Outlook.Reserve, t.drawer()), nil
}
