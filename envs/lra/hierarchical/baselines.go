package hierarchical

import (
	"context"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// divide makes a policy of a function that chooses a sub-cluster.
func divide(start func(t *Task) func(app int) int) func(envs.Task) (envs.Policy, error) {
	return envs.ForTask("lra: a baseline of division", func(t *Task) (envs.Policy, error) {
		return world.Policy(func(context.Context) (world.Descent, error) {
			next := start(t)
			return world.Descent{
				Tree: &t.tree, Decision: func() int { return t.next }, Choose: func() int { return next(int(t.queue[t.next])) },
				Below: func(first, end int) int {
					return first + max(0, slices.IndexFunc(t.totals[first:end], func(k int) bool { return k < subSlots }))
				},
			}, nil
		}), nil
	})
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
