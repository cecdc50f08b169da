package hierarchical

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// divide wraps a choice of a sub-cluster as a rule.
func divide(start func(t *Task) func(app int) int) func(envs.Task) (envs.Policy, error) {
	return func(task envs.Task) (envs.Policy, error) {
		t, ok := task.(*Task)
		if !ok {
			return nil, fmt.Errorf("lra: a baseline of division for a task of type %T", task)
		}
		var next func(app int) int
		sub, container := 0, 0
		return func(_ context.Context, _ *cluster.State, first bool, action []float32) error {
			if first {
				next = start(t)
			}
			if first || t.level == 0 || t.next != container { // or it was not asked at the root
				sub, container = next(int(t.queue[t.next])), t.next
			}
			width := t.width()
			if end := t.from + t.src.fan*width; sub < t.from || sub >= end { // other choices were made on the way down
				sub = t.from + max(0, slices.IndexFunc(t.totals[t.from:end], func(k int) bool { return k < subSlots }))
			}
			action[0] = float32((sub - t.from) / width)
			return nil
		}, nil
	}
}

var baselines = []envs.Baseline{
	{Name: "random", Doc: "Draws among the sub-clusters that are not full.",
		New: divide(func(t *Task) func(int) int {
			rng := world.BaselineRand()
			return func(int) int {
				choice, n := 0, 0
				for i, k := range t.totals {
					if k < subSlots {
						if n++; rng.IntN(n) == 0 {
							choice = i
						}
					}
				}
				return choice
			}
		})},
	{Name: "round_robin", Doc: "Takes the sub-clusters in turn.",
		New: divide(func(t *Task) func(int) int {
			i := -1
			return func(int) int {
				for i = (i + 1) % len(t.totals); t.totals[i] == subSlots; {
					i = (i + 1) % len(t.totals)
				}
				return i
			}
		})},
	{Name: "equal_split", Doc: "Takes the sub-cluster with the fewest containers, then the fewest of the application: Metis's demonstration.",
		New: divide(func(t *Task) func(int) int {
			return func(app int) int { return subcluster.LeastPart(t.totals, t.parts, app) }
		})},
}
