package balance

import (
	"context"
	"errors"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
	"github.com/kubernasium/kubernasium/envs/podsched/lifetimes"
)

// noteBound adds a pod to the forecast, if there is one.
func (t *Task) noteBound(s *cluster.State, p *deployments.Pod, pod int32, begun time.Duration) {
	if t.forecast == nil {
		return
	}
	node, amount := s.Pods[pod].Node, p.Compared(t.opts.Measure == MeasureUsage)
	t.forecast.Add(s, lifetimes.Pod{Index: pod, Node: node, Hint: p.Hint, Begun: begun,
		CPU: float64(amount.MilliCPU) * t.invCPU[node], Memory: float64(amount.MemoryBytes) * t.invMemory[node]})
}

// updateForecast forecasts for the current pod.
func (t *Task) updateForecast(s *cluster.State) {
	if t.forecast != nil {
		added := t.spec.Compared(t.opts.Measure == MeasureUsage)
		t.forecast.Update(s, t.spec.Hint, imbalance.Resource{Added: float64(added.MilliCPU), Inverse: t.invCPU},
			imbalance.Resource{Added: float64(added.MemoryBytes), Inverse: t.invMemory})
	}
}

// newGreedyLifetime returns a function that makes policies which take the node with the lowest weighted sum of costs.
func newGreedyLifetime(w lifetimes.Weights) func(envs.Task) (envs.Policy, error) {
	makes := policyOf(func(*Task) chooser {
		return func(_ context.Context, t *Task, _ *cluster.State, mask []bool) int {
			return t.forecast.Cheapest(w, mask)
		}
	})
	return func(task envs.Task) (envs.Policy, error) {
		if t, ok := task.(*Task); ok && t.forecast == nil {
			return nil, errors.New("balance: GreedyLifetime needs hints:lifetime")
		}
		return makes(task)
	}
}
