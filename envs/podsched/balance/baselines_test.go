package balance_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/balance"
)

// TestFirstChoices has the placements of three pods, worked by hand. Three nodes of 64 CPU and
// 256 Gi; first comes a pod of 16 CPU and 32 Gi, which ties everywhere and goes to node 0. Then one
// of 16 CPU and 64 Gi:
//
//	           LeastAllocated                      BalancedAllocation        MostAllocated
//	node 0     (floor 50 + floor 62.5)/2 = 56      |50−37.5|/2 = 6.25 → 93   (50+37)/2 = 43
//	node 1, 2  (75 + 75)/2 = 75                    0 → 100                   25
//
// so that MostAllocated never leaves node 0, and the others go to node 1. Then its like:
//
//	node 0     56                                  93
//	node 1     50                                  100
//	node 2     75                                  100
//
// PodTopologySpread counts 0 replicas on each node for the second pod, raw 2 and score 100 all;
// for the third 1 on node 1: raw round(ln 5 + 2) = 4 there and 2 elsewhere, scores
// 100·(4+2−4)/4 = 50 and 100. KubeDefault: node 0 200+56+93, node 1 100+50+100, node 2 200+75+100.
func TestFirstChoices(t *testing.T) {
	file := write(t, "d.csv", "name,pod_count,cpu_request,mem_request\na,1,16,32Gi\nb,2,16,64Gi\n")
	for _, tc := range []struct {
		name string
		want [3]int32
	}{
		{"First", [3]int32{0, 0, 0}},
		{"RoundRobin", [3]int32{0, 1, 2}},
		{"LeastAllocated", [3]int32{0, 1, 2}},
		{"MostAllocated", [3]int32{0, 0, 0}},
		{"BalancedAllocation", [3]int32{0, 1, 1}},
		{"KubeDefault", [3]int32{0, 1, 2}},
		{"Greedy", [3]int32{0, 1, 2}},
	} {
		if got := placements(t, tc.name, 1, map[string]any{"nodes": 3, "deployments": file, "reset_pods": []any{3}}); got != tc.want {
			t.Errorf("%s places on %v, want %v", tc.name, got, tc.want)
		}
	}
}

// placements returns the nodes of the first three pods.
func placements(t *testing.T, baseline string, seed uint64, opts map[string]any) (nodes [3]int32) {
	t.Helper()
	v := open(t, 1, opts)
	policy := envstest.Policy(t, v, baseline)
	i := 0
	envstest.Play(t, v, func(_ context.Context, s *cluster.State, first bool, action []float32) error {
		err := policy(ctx, s, first, action)
		nodes[i] = int32(action[0])
		i++
		return err
	}, seed)
	return nodes
}

// TestSpreadAndPack: with four nodes in racks of two, KubeRackSpread puts a deployment's pods
// into the two racks in turn, which KubeDefault, blind to racks, does by the third pod only; what
// packs stays on one node.
func TestSpreadAndPack(t *testing.T) {
	opts := func(objective string) map[string]any {
		return map[string]any{"nodes": 4, "servers_per_rack": 2, "replicas_min": 3, "replicas_max": 3, "reset_pods": []any{3}, "objective": objective}
	}
	for _, tc := range []struct {
		baseline, objective string
		want                [3]int32
	}{
		{"KubeRackSpread", "spread", [3]int32{0, 2, 1}},
		{"KubeDefault", "spread", [3]int32{0, 1, 2}},
		{"Greedy", "spread", [3]int32{0, 2, 1}},
		{"Greedy", "pack", [3]int32{0, 0, 0}},
		{"Exact", "pack", [3]int32{0, 0, 0}},
	} {
		if got := placements(t, tc.baseline, 1, opts(tc.objective)); got != tc.want {
			t.Errorf("%s for %s places on %v, want %v", tc.baseline, tc.objective, got, tc.want)
		}
	}
}

// TestExactIsOptimal compares the return of Exact with the best of all sequences of actions,
// played through the environment one by one, and sees that no other baseline is above it.
func TestExactIsOptimal(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"balance, mixed", map[string]any{"node_types": "mixed", "pods": "mixed", "reset_pods": []any{6}}},
		{"balance, two phases", map[string]any{"pods": "mixed", "memory_heavy": 0.5, "reset_pods": []any{3, 3}, "replicas_min": 1, "replicas_max": 2}},
		{"departures", map[string]any{"pods": "mixed", "steps": 6, "lifetime": 40.0, "replicas_min": 1, "replicas_max": 2}},
		{"departures, hints", map[string]any{"pods": "mixed", "steps": 6, "lifetime": 40.0, "replicas_min": 1, "replicas_max": 2, "hints": "lifetime"}},
		{"spread", map[string]any{"objective": "spread", "reset_pods": []any{6}, "servers_per_rack": 2, "replicas_min": 2, "replicas_max": 4}},
		{"pack", map[string]any{"objective": "pack", "pods": "mixed", "steps": 6, "lifetime": 60.0, "servers_per_rack": 2, "replicas_min": 1, "replicas_max": 3}},
		{"a long time limit", map[string]any{"pods": "mixed", "steps": 1000, "lifetime": 60.0, "reset_pods": []any{4, 2}, "replicas_min": 1, "replicas_max": 2}},
		{"pods that fail", map[string]any{"node_types": "mixed", "memory_heavy": 1.0, "reset_pods": []any{6}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const nodes, depth = 3, 6
			tc.opts["nodes"] = nodes
			v := open(t, 1, tc.opts)
			for seed := range uint64(5) {
				best := math.Inf(-1)
				for code := range 729 { // 3^6
					b := reset(t, v, seed)
					for k, c := 0, code; k < depth && (k == 0 || !b.Done(0)); k, c = k+1, c/nodes {
						b = step(t, v, float32(c%nodes))
					}
					if !b.Done(0) {
						t.Fatalf("seed %d: the episode continues after %d decisions", seed, depth)
					}
					best = max(best, b.EpisodeReturn[0])
				}
				if got := play(t, v, "Exact", seed).EpisodeReturn[0]; math.Abs(got-best) > 1e-9 {
					t.Errorf("seed %d: Exact returns %v, the best of all sequences is %v", seed, got, best)
				}
				for _, base := range spec(t).Baselines {
					if strings.HasPrefix(base.Name, "GreedyLifetime") && tc.opts["hints"] == nil {
						continue
					}
					if got := play(t, v, base.Name, seed).EpisodeReturn[0]; got > best+1e-9 {
						t.Errorf("seed %d: %s returns %v, above the optimum %v", seed, base.Name, got, best)
					}
				}
			}
		})
	}
}

// TestExactRefuses what it cannot solve.
func TestExactRefuses(t *testing.T) {
	base, err := spec(t).Baseline("Exact")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		opts map[string]any
		want string
	}{
		{nil, "needs reset_pods or steps"},
		{map[string]any{"reset_pods": []any{6}}, "10 nodes and 6 decisions are too many"},
		{map[string]any{"nodes": 2, "reset_pods": []any{4}, "reward": "original"}, "needs the sound reward"},
	} {
		_, err := base.New(open(t, 1, tc.opts).Env(0).Task())
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Exact for %v: %v, want an error with %q", tc.opts, err, tc.want)
		}
	}
}

// TestRandomIsReproducible: the same episode twice, and other choices in another.
func TestRandomIsReproducible(t *testing.T) {
	a, b, c := placements(t, "Random", 1, toy()), placements(t, "Random", 1, toy()), placements(t, "Random", 2, toy())
	if a != b || a == c {
		t.Errorf("seed 1 gives %v and %v, seed 2 %v; want equal, and another", a, b, c)
	}
}

func toy() map[string]any { return map[string]any{"nodes": 50, "reset_pods": []any{3}} }

// TestExplain has the third decision of TestFirstChoices after LeastAllocated's two: the scores
// worked out there, and the reason of a node that is full.
func TestExplain(t *testing.T) {
	file := write(t, "d.csv", "name,pod_count,cpu_request,mem_request\na,1,16,32Gi\nb,2,16,64Gi\nc,1,64,1Gi\nd,1,1,1Gi\n")
	v := open(t, 1, map[string]any{"nodes": 3, "deployments": file, "reset_pods": []any{5}})
	reset(t, v, 1)
	for _, node := range []float32{0, 1} {
		step(t, v, node)
	}
	task := v.Env(0).Task().(*balance.Task)
	columns, rows := task.Explain(v.Env(0).State())
	// Costs: half of the deviations of CPU and of memory. On node 0 CPU 50, 25, 0 (20.4124) and
	// memory 37.5, 25, 0 (15.5902); on node 1 25, 50, 0 (20.4124) and 12.5, 50, 0 (21.2459); on
	// node 2 25, 25, 25 (0) and 12.5, 25, 25 (5.8926).
	want := [][]string{
		{"worker-0", "rack-0", "18.0013", "56", "43", "93", "100", "349", ""},
		{"worker-1", "rack-0", "20.8292", "50", "50", "100", "50", "250", ""},
		{"worker-2", "rack-0", "2.9463", "75", "25", "100", "100", "375", ""},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("%v (-want +got):\n%s", columns, diff)
	}
	step(t, v, 1)
	if _, rows = task.Explain(v.Env(0).State()); len(rows) != 3 || rows[2][8] != "" ||
		rows[0][8] != "pod c-3 requests 64 CPU and 1Gi memory, node worker-0 has 48 CPU and 224Gi memory free" || rows[0][2] != "" {
		t.Errorf("%v", rows)
	}
	step(t, v, 2)
	b := step(t, v, 0)
	if !b.Terminated[0] {
		t.Fatal("the episode continues")
	}
}
