package balance_test

import (
	"context"
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	_ "github.com/kubernasium/kubernasium/envs/podsched/balance"
)

var ctx = context.Background()

func spec(tb testing.TB) *envs.Spec {
	tb.Helper()
	return envstest.Spec(tb, "k8s/PodBalance-v0")
}

func TestContract(t *testing.T) {
	for i, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"source's setting", nil},
		{"a toy, for Exact", map[string]any{"nodes": 3, "reset_pods": []any{4, 2}}},
		{"mixed, departures, usage", map[string]any{"nodes": 7, "node_types": "mixed", "pods": "mixed", "memory_heavy": 0.3,
			"lifetime": 900.0, "steps": 120, "usage_min": 0.2, "measure": "usage"}},
		{"hints", map[string]any{"nodes": 7, "node_types": "mixed", "pods": "mixed", "memory_heavy": 0.3,
			"lifetime": 900.0, "steps": 120, "usage_min": 0.2, "measure": "usage", "hints": "lifetime", "edges": "rack"}},
		{"costs", map[string]any{"nodes": 7, "node_types": "mixed", "pods": "mixed", "memory_heavy": 0.3,
			"lifetime": 900.0, "steps": 120, "usage_min": 0.2, "measure": "usage", "costs": true, "edges": "rack"}},
		{"overloaded", map[string]any{"nodes": 2, "pods": "mixed", "memory_heavy": 0.5, "lifetime": 40_000.0, "steps": 150}},
		{"full, so that pods fail", map[string]any{"nodes": 3, "cpu_load": 1.0, "memory_load": 1.0, "pod_load": 1.0, "pods": "mixed"}},
		{"spread, graph", map[string]any{"objective": "spread", "edges": "rack"}},
		{"pack, many nodes", map[string]any{"nodes": 65, "objective": "pack", "cpu_load": 0.05, "servers_per_rack": 8, "edges": "rack"}},
		{"one node", map[string]any{"nodes": 1}},
		{"original", map[string]any{"reward": "original"}},
		{"original, overcommit", map[string]any{"reward": "original", "overcommit": true, "reset_pods": []any{100}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			envstest.EveryThird(t, i)
			envcheck.Run(t, spec(t), envcheck.Options{Options: tc.opts})
		})
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, tc := range []struct {
		opts map[string]any
		want string
	}{
		{map[string]any{"node": 3}, `did you mean "nodes"?`},
		{map[string]any{"nodes": 0}, "nodes is 0, want 1 to 5000"},
		{map[string]any{"replicas_min": 9, "replicas_max": 8}, "replicas_max is 8, want 9 to 1000"},
		{map[string]any{"cpu_load": 0.0}, "cpu_load is 0"},
		{map[string]any{"cpu_load": math.NaN()}, "cpu_load is NaN"},
		{map[string]any{"objective": "fast"}, `objective is "fast", want one of ["balance" "spread" "pack"]`},
		{map[string]any{"lifetime": 60.0}, "steps is 0 with lifetime 60"},
		{map[string]any{"lifetime": 60.0, "steps": 10, "interval": 0.0}, "lifetime is 60 with interval 0"},
		{map[string]any{"hints": "lifetime"}, "want pods that end"},
		{map[string]any{"hints": "lifetime", "lifetime": 60.0, "steps": 10, "objective": "pack"}, "want balance"},
		{map[string]any{"costs": true, "objective": "spread"}, "want balance"},
		{map[string]any{"costs": true, "hints": "lifetime", "lifetime": 60.0, "steps": 10}, "want one of the two"},
		{map[string]any{"hint_error": 0.5}, "hint_error is 0.5, want 1 to 1000"},
		{map[string]any{"overcommit": true}, "want reward original"},
		{map[string]any{"reward": "original", "measure": "usage"}, "knows requests only"},
		{map[string]any{"edges": "rack", "servers_per_rack": 1}, "at least 2 of each"},
		{map[string]any{"reset_pods": []any{3, 0}}, "each of reset_pods is 0"},
		{map[string]any{"deployments": "x.csv", "pods": "mixed"}, "deployments that nothing is"},
	} {
		envstest.CheckInvalid(t, spec(t).ID, tc.opts, tc.want)
	}
	if _, err := spec(t).Open(map[string]any{"deployments": "no such file.csv"}); err == nil {
		t.Error("Open with a file that does not exist: no error")
	}
}

func benchmarkSteps(b *testing.B, opts map[string]any) {
	v, err := envs.NewVec(spec(b), 1, envs.VecOptions{Options: opts, Autoreset: envs.SameStep, Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer v.Close()
	batch, err := v.Reset(ctx, envs.VecResetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	action := []float32{0}
	step := func() {
		for i := range batch.Mask { // the next node that fits
			n := (int(action[0]) + 1 + i) % len(batch.Mask)
			if batch.Mask[n] {
				action[0] = float32(n)
				break
			}
		}
		if batch, err = v.Step(ctx, action); err != nil {
			b.Fatal(err)
		}
	}
	for range 20_000 { // until slices have grown
		step()
	}
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

// BenchmarkStep counts decisions with observation, mask and resets on one core.
func BenchmarkStep(b *testing.B) {
	b.Run("10 nodes", func(b *testing.B) { benchmarkSteps(b, nil) })
	b.Run("64 nodes", func(b *testing.B) { benchmarkSteps(b, map[string]any{"nodes": 64}) })
	b.Run("64 nodes, mixed, departures, graph", func(b *testing.B) {
		benchmarkSteps(b, map[string]any{"nodes": 64, "node_types": "mixed", "pods": "mixed", "lifetime": 4000.0, "steps": 1000,
			"usage_min": 0.3, "edges": "rack"})
	})
	b.Run("1213 nodes", func(b *testing.B) { benchmarkSteps(b, map[string]any{"nodes": 1213}) })
}
