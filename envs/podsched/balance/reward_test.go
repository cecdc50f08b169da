package balance_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/podsched/balance"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
)

// after returns the cost of the objective as the README defines it, from the state alone: it is
// computed again here, for the deployment whose pods have the metadata of pod last.
func after(s *cluster.State, o balance.Options, last int32) float64 {
	n := len(s.Nodes)
	racks := (n + o.ServersPerRack - 1) / o.ServersPerRack
	cpu, memory := make([]float64, n), make([]float64, n)
	servers, inRack := make([]float64, n), make([]float64, racks)
	usedRack := map[int]bool{}
	used := 0.0
	for i := range s.Nodes {
		node := &s.Nodes[i]
		amount := node.Requested
		if o.Measure == balance.MeasureUsage {
			amount = node.Usage
		}
		cpu[i] = float64(amount.MilliCPU) / float64(node.Allocatable.MilliCPU)
		memory[i] = float64(amount.MemoryBytes) / float64(node.Allocatable.MemoryBytes)
		if node.NumPods > 0 {
			used++
			usedRack[i/o.ServersPerRack] = true
		}
	}
	replicas := 0.0
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Meta == s.Pods[last].Meta {
			replicas++ // all of it have come: the tests have deployments of one size
			if p.Phase == cluster.Running {
				servers[p.Node]++
				inRack[int(p.Node)/o.ServersPerRack]++
			}
		}
	}
	switch o.Objective {
	case balance.ObjectiveBalance:
		return 100 * (popSD(cpu) + popSD(memory)) / 2
	case balance.ObjectivePack:
		return 100 * (used/float64(n) + float64(len(usedRack))/float64(racks)) / 2
	}
	for _, x := range [][]float64{servers, inRack} {
		for i := range x {
			x[i] /= float64(o.ReplicasMax)
		}
	}
	return 100 * (popSD(servers) + popSD(inRack)) / 2
}

// TestBetterPlacementIsWorthMore tries every node in many states: the reward of a placement is
// strictly higher exactly where the state after it has a lower cost, and it is −cost/unit.
func TestBetterPlacementIsWorthMore(t *testing.T) {
	for _, tc := range []struct {
		name string
		unit float64
		opts map[string]any
		o    balance.Options
	}{
		{"balance", 10, map[string]any{}, balance.Options{Objective: "balance", Measure: "requests"}},
		{"balance of usage", 10, map[string]any{"measure": "usage", "usage_min": 0.1}, balance.Options{Objective: "balance", Measure: "usage"}},
		{"spread", 10, map[string]any{"objective": "spread"}, balance.Options{Objective: "spread"}},
		{"pack", 100, map[string]any{"objective": "pack"}, balance.Options{Objective: "pack"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const n = 6
			tc.o.ServersPerRack, tc.o.ReplicasMax = 2, 4
			for name, value := range map[string]any{"nodes": n, "servers_per_rack": 2, "replicas_min": 4, "replicas_max": 4,
				"node_types": "mixed", "pods": "mixed", "steps": 200, "lifetime": 400.0} {
				tc.opts[name] = value
			}
			// A copy of the environment for each node; all play the same way up to the state.
			v := open(t, n, tc.opts)
			rng := rand.New(pcg.New(3))
			distinct, differ := 0, 0
			for trial := range 100 {
				b, err := v.Reset(ctx, envs.VecResetOptions{Seeds: same(n, uint64(trial))})
				if err != nil {
					t.Fatal(err)
				}
				for range rng.IntN(40)*4 + 1 { // stop within a deployment, so that no time passes after the step
					b = step(t, v, repeat(n, permitted(rng, b.Mask[:n]))...)
				}
				actions, mask := make([]float32, n), append([]bool(nil), b.Mask[:n]...)
				for i := range actions {
					actions[i] = float32(i)
				}
				last := int32(len(v.Env(0).State().Pods)) - 1
				b = step(t, v, actions...)
				var cost, reward []float64
				for i, ok := range mask {
					if ok {
						cost = append(cost, after(v.Env(i).State(), tc.o, last))
						reward = append(reward, b.Reward[i])
					}
				}
				for i := range cost {
					if math.Abs(reward[i]+cost[i]/tc.unit) > 1e-9 {
						t.Fatalf("trial %d: reward %v for a cost of %v", trial, reward[i], cost[i])
					}
					for j := range cost {
						if cost[i] < cost[j]-1e-9 {
							distinct++
							if reward[i] > reward[j] {
								differ++
							}
						}
					}
				}
			}
			if distinct < 100 || differ != distinct {
				t.Errorf("of %d pairs in which one placement is better, %d have the higher reward", distinct, differ)
			}
		})
	}
}

// TestOriginalRewardIgnoresTheNode is the fault that the sound reward mends: in the same state,
// a full and an empty node are worth the same to the original.
func TestOriginalRewardIgnoresTheNode(t *testing.T) {
	shares := []float64{0.9, 0, 0.5}
	reward := func(node int) float64 { return imbalance.NewOriginalReward(3).Score(shares, node) }
	if reward(0) != reward(1) {
		t.Errorf("rewards %v on the fullest node and %v on the empty one, want equal", reward(0), reward(1))
	}
}

func same(n int, seed uint64) []uint64 {
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = seed
	}
	return seeds
}

func repeat(n int, x float32) []float32 {
	a := make([]float32, n)
	for i := range a {
		a[i] = x
	}
	return a
}

func permitted(rng *rand.Rand, mask []bool) float32 {
	for {
		if i := rng.IntN(len(mask)); mask[i] {
			return float32(i)
		}
	}
}

// TestEveryPolicySeesTheSamePods: the workload does not depend on the placements.
func TestEveryPolicySeesTheSamePods(t *testing.T) {
	requests := func(baseline string) string {
		v := open(t, 1, map[string]any{"pods": "mixed", "cpu_load": 0.5, "memory_load": 0.5, "resets": 1})
		policy := envstest.Policy(t, v, baseline)
		seen := ""
		envstest.Play(t, v, func(_ context.Context, s *cluster.State, first bool, action []float32) error {
			seen += fmt.Sprintln(s.Pods[len(s.Pods)-1].Requests)
			return policy(ctx, s, first, action)
		}, 5)
		return seen
	}
	if a, b := requests("KubeDefault"), requests("RoundRobin"); a != b || len(a) < 100 {
		t.Errorf("KubeDefault and RoundRobin were offered different pods:\n%s\n%s", a, b)
	}
}
