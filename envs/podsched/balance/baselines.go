package balance

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
	"github.com/kubernasium/kubernasium/envs/podsched/lifetimes"
)

// A chooser returns the node for the current pod among those that mask permits. When ctx ends, it returns early, and
// its result is invalid.
type chooser func(ctx context.Context, t *Task, s *cluster.State, mask []bool) int

// baselines in the order of reports. Baselines named after kube-scheduler's plugins score as these do, and break ties
// by the node's index.
var baselines = []envs.Baseline{
	{Name: "Random", Doc: "Any node that fits, uniformly.", New: policyOf(newRandom)},
	{Name: "RoundRobin", Doc: "The next node that fits, in turn.", New: policyOf(newRoundRobin)},
	{Name: "First", Doc: "The first node that fits.", New: policyOf(func(*Task) chooser { return first })},
	{Name: "LeastAllocated", Doc: "kube-scheduler's strategy of that name: the highest mean of free CPU and memory.",
		New: policyOf(scored(leastAllocated))},
	{Name: "MostAllocated", Doc: "kube-scheduler's strategy of that name: the highest mean of requested CPU and memory.",
		New: policyOf(scored(mostAllocated))},
	{Name: "BalancedAllocation", Doc: "kube-scheduler's plugin of that name: CPU and memory of the node requested in equal parts.",
		New: policyOf(scored(balancedAllocation))},
	{Name: "KubeDefault", Doc: "kube-scheduler as it comes: all its score plugins with their default weights.",
		New: policyOf(func(*Task) chooser { return newKube(false) })},
	{Name: "KubeRackSpread", Doc: "KubeDefault for pods that ask for topology spread over racks, maxSkew 1, ScheduleAnyway.",
		New: policyOf(func(*Task) chooser { return newKube(true) })},
	weightedScores,
	{Name: "Greedy", Doc: "The node of lowest cost after the bind, by the objective's exact formula.", New: policyOf(func(*Task) chooser { return greedy })},
	greedyLifetime,
	greedyLifetime.Tuned("GreedyLifetimeTuned", "GreedyLifetime with weights found in mixed nodes and pods for hint_error:2: trainer tune --baseline GreedyLifetime -n 1000000.", map[string]any{"after_10": 1.181, "after_25": 0.3712, "after_50": 0.3829, "after_100": 0.09082}),
	{Name: "Exact", Doc: "The best plan for the whole episode, which it knows in advance; for small instances.", Clairvoyant: true, New: envs.ForTask("balance: a baseline", newExact)},
}

var weightedScores = envs.Parametric(
	envs.Baseline{Name: "WeightedScores", Doc: "A weighted sum of kube-scheduler's scores and of the cost after the bind, from 100 for the cheapest node to 0 for the dearest."},
	scoreWeights{LeastAllocated: 1, BalancedAllocation: 1, HostSpread: 1, RackSpread: 1, Cost: 1},
	func(w scoreWeights) func(envs.Task) (envs.Policy, error) { return policyOf(w.newChooser) })

var greedyLifetime = envs.Parametric(
	envs.Baseline{Name: "GreedyLifetime", Doc: "The lowest weighted sum of the cost after the bind, which weighs 1, and of the costs that hints of lifetimes let expect later."},
	lifetimes.Weights{After10: 1, After25: 1, After50: 1, After100: 1}, newGreedyLifetime)

// policyOf returns a function that makes policies. A policy makes a chooser with newChooser for each episode.
func policyOf(newChooser func(t *Task) chooser) func(envs.Task) (envs.Policy, error) {
	return envs.ForTask("balance: a baseline", func(t *Task) (envs.Policy, error) {
		var choose chooser
		mask := make([]bool, t.opts.Nodes)
		return func(ctx context.Context, s *cluster.State, first bool, action []float32) error {
			if first || choose == nil || t.stats.decisions == 0 {
				choose = newChooser(t)
			}
			if t.pod == noPod {
				action[0] = 0
				return nil
			}
			s.FitMask(t.pod, mask)
			action[0] = float32(choose(ctx, t, s, mask))
			return ctx.Err()
		}, nil
	})
}

// first returns the first permitted node. There is one, since pods that fit no node fail without a decision.
func first(_ context.Context, _ *Task, _ *cluster.State, mask []bool) int {
	return max(slices.Index(mask, true), 0)
}

func newRoundRobin(*Task) chooser {
	next := 0
	return func(_ context.Context, _ *Task, _ *cluster.State, mask []bool) int {
		for i := range mask {
			if n := (next + i) % len(mask); mask[n] {
				next = n + 1
				return n
			}
		}
		return 0
	}
}

// randomStream separates the choices of Random from the draws of the instance.
const randomStream = 0x52616e646f6d

func newRandom(t *Task) chooser {
	rng := rand.New(pcg.New(t.in.Seed ^ randomStream))
	return func(_ context.Context, _ *Task, _ *cluster.State, mask []bool) int {
		permitted := 0
		for _, ok := range mask {
			if ok {
				permitted++
			}
		}
		k := rng.IntN(max(permitted, 1))
		for i, ok := range mask {
			if ok {
				if k == 0 {
					return i
				}
				k--
			}
		}
		return 0
	}
}

// greedy takes linear time in the number of nodes with the objective balance: it only compares the nodes exactly that
// may be cheapest, in their order.
func greedy(ctx context.Context, t *Task, s *cluster.State, mask []bool) int {
	if t.opts.Objective != ObjectiveBalance {
		return cheapest(ctx, t, s, mask)
	}
	cpu, memory := t.compared(s)
	return cheapest(ctx, t, s, imbalance.Candidates(mask, cpu, memory))
}

// compared returns the shares of nodes and what the current pod adds to them. It overwrites scratch.
func (t *Task) compared(s *cluster.State) (cpu, memory imbalance.Resource) {
	t.measure(s, noNode, true) // for the shares
	added := t.spec.Compared(t.opts.Measure == MeasureUsage)
	return imbalance.Resource{Shares: t.scratch.cpu, Added: float64(added.MilliCPU), Inverse: t.invCPU},
		imbalance.Resource{Shares: t.scratch.memory, Added: float64(added.MemoryBytes), Inverse: t.invMemory}
}

// cheapest returns the node with the lowest cost, the first of equal ones.
func cheapest(ctx context.Context, t *Task, s *cluster.State, mask []bool) int {
	best, lowest := 0, math.Inf(1)
	for i, ok := range mask {
		if ctx.Err() != nil {
			break
		}
		if ok {
			if cost := t.costIf(s, i); cost < lowest-imbalance.Rounding {
				best, lowest = i, cost
			}
		}
	}
	return best
}

// scored returns a function that makes choosers of the node with the highest score.
func scored(score func(t *Task, s *cluster.State, i int) int64) func(*Task) chooser {
	return func(*Task) chooser {
		return func(_ context.Context, t *Task, s *cluster.State, mask []bool) int {
			best, highest := 0, int64(math.MinInt64)
			for i, ok := range mask {
				if ok {
					if v := score(t, s, i); v > highest {
						best, highest = i, v
					}
				}
			}
			return best
		}
	}
}
