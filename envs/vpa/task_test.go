package vpa_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	_ "github.com/kubernasium/kubernasium/envs/vpa"
)

var ctx = context.Background()

const (
	continuous = "k8s/VerticalPodAutoscaler-v0"
	discrete   = "k8s/VerticalPodAutoscalerDiscrete-v0"
	shared     = "k8s/VerticalPodAutoscaler-v1"
)

var spec = envstest.Spec

func TestContract(t *testing.T) {
	for i, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"default", map[string]any{"steps": 120}},
		{"pods, in place or recreate, held-out", map[string]any{
			"pods": 3, "mode": "InPlaceOrRecreate", "split": "heldout", "steps": 90, "encoding": "relative", "min_replicas": 2}},
		{"in place on a small node, restarts", map[string]any{
			"pods": 2, "mode": "InPlace", "steps": 90, "node_cpu_m": 8000, "node_memory_mib": 16384, "resize_policy": "RestartContainer"}},
		{"initial", map[string]any{"mode": "Initial", "steps": 60, "weighting": "risk_heavy"}},
		{"off", map[string]any{"mode": "Off", "steps": 60, "weighting": "slack_heavy"}},
		{"usage rule, no limits, no history", map[string]any{
			"updater": "usage", "steps": 60, "limit_ratio_cpu": 0, "limit_ratio_memory": 0, "history_h": 0}},
		{"requests only, LimitRange, five minutes", map[string]any{
			"controlled_values": "RequestsOnly", "steps": 60, "interval_s": 300, "limit_range_min_cpu_m": 50,
			"limit_range_max_cpu_m": 8000, "limit_range_max_memory_mib": 8192, "limit_range_max_ratio": 4}},
		{"eviction requirements, default limits", map[string]any{"steps": 60, "limit_ratio_cpu": 0, "limit_ratio_memory": 0, "limit_range_default_cpu_m": 4000,
			"limit_range_default_memory_mib": 4096, "limit_range_max_ratio": 4, "eviction_requirements": []string{"cpu+memory:TargetHigherThanRequests"}}},
		{"beside upstream, safe, held", map[string]any{"encoding": "upstream", "safety": "memory", "hold": 7, "steps": 90, "pods": 2}},
	} {
		for _, id := range []string{continuous, discrete} {
			t.Run(tc.name+" "+id, func(t *testing.T) {
				envstest.EveryThird(t, i)
				envcheck.Run(t, spec(t, id), envcheck.Options{Options: tc.opts, Steps: 400})
			})
		}
	}
}

// TestSharedContract checks the environment whose pods share their node.
func TestSharedContract(t *testing.T) {
	for i, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"default", map[string]any{"steps": 120}},
		{"many pods on a busy node", map[string]any{"pods": 3, "neighbours": 6, "steps": 90, "busy_cpu": 0.9, "busy_memory": 0.5, "faults_per_day": 20, "split": "heldout"}},
		{"recreate, alone", map[string]any{"mode": "Recreate", "neighbours": 0, "steps": 60, "hold": 7}},
		{"residual", map[string]any{"encoding": "residual", "hold": 5, "steps": 90, "safety": "memory"}},
		{"off, small node", map[string]any{"mode": "Off", "steps": 60, "node_cpu_m": 500, "node_memory_mib": 700}},
		{"in place", map[string]any{"mode": "InPlace", "steps": 60, "faults_per_day": 50}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			envstest.EveryThird(t, i)
			envcheck.Run(t, spec(t, shared), envcheck.Options{Options: tc.opts, Steps: 150})
		})
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, tc := range []struct {
		opts map[string]any
		want string
	}{
		{map[string]any{"mod": "Off"}, `did you mean "mode"?`},
		{map[string]any{"mode": "Auto"}, `mode is "Auto", want one of ["Off" "Initial"`},
		{map[string]any{"workload": "waves"}, `workload is "waves"`},
		{map[string]any{"encoding": "bits"}, `encoding is "bits", want one of ["log" "relative" "upstream"]`},
		{map[string]any{"safety": "all"}, `safety is "all", want one of ["none" "memory"]`},
		{map[string]any{"hold": 0}, "hold is 0, want 1 to 1440"},
		{map[string]any{"hold": 6, "steps": 5}, "hold is 6, want 1 to 5"},
		{map[string]any{"pods": 0}, "pods is 0, want 1 to 64"},
		{map[string]any{"interval_s": math.NaN()}, "interval_s is NaN"},
		{map[string]any{"interval_s": 86400.0, "steps": 26688}, "steps is 26688 with interval_s 86400, want at most 26687"}, // 2^61 ns
		{map[string]any{"limit_ratio_cpu": 0.5}, "limit_ratio_cpu is 0.5, want 0 (no limit) or 1 and more"},
		{map[string]any{"limit_ratio_cpu": 4.0, "limit_range_max_ratio": 3.0}, "limit_range_max_ratio permits 3"},
		{map[string]any{"limit_ratio_cpu": 0, "limit_ratio_memory": 0, "limit_range_default_cpu_m": 500, "limit_range_max_ratio": 0.5}, "limit_range_max_ratio is 0.5, want 0 (none) or 1 and more"},
		{map[string]any{"limit_range_min_cpu_m": 100.0, "limit_range_max_cpu_m": 50.0}, "the LimitRange of cpu is from 100 to 50"},
		{map[string]any{"limit_range_max_cpu_m": 500.0, "limit_range_default_cpu_m": 600.0, "limit_ratio_cpu": 0}, "the default limit 600, want one from its least amount, 0, to its greatest, 500"},
		{map[string]any{"max_allowed_cpu_m": 5.0}, "max_allowed_cpu_m is 5"},
		{map[string]any{"eviction_requirements": []string{"disk:TargetHigherThanRequests"}}, `eviction_requirements has "disk:TargetHigherThanRequests", want cpu, memory or cpu+memory`},
		{map[string]any{"eviction_requirements": []string{"cpu:Higher"}}, `has "cpu:Higher"`},
	} {
		envstest.CheckInvalid(t, continuous, tc.opts, tc.want)
	}
}

// BenchmarkStep steps with actions that change the requests now and then.
func BenchmarkStep(b *testing.B) {
	for _, bc := range []struct {
		id   string
		pods int
	}{{continuous, 1}, {continuous, 10}, {discrete, 1}} {
		b.Run(fmt.Sprintf("%s, pods=%d", bc.id, bc.pods), func(b *testing.B) {
			const n = 16
			v, err := envs.NewVec(spec(b, bc.id), n, envs.VecOptions{
				Options: map[string]any{"pods": bc.pods}, Autoreset: envs.SameStep, Shards: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer v.Close()
			if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
				b.Fatal(err)
			}
			_, act := v.Spaces()
			k := act.Size()
			actions := make([]float32, n*k)
			i := 0
			step := func() {
				for e := range n {
					a := actions[e*k : (e+1)*k]
					if bc.id == discrete {
						a[0] = 24 // keep
						if (i+e)%50 == 0 {
							a[0] = float32((i / 50) % 49)
						}
						continue
					}
					target := float32(0.1 + 0.05*float64((i+e)/60%4))
					copy(a, []float32{target - 0.1, target, target + 0.1, target, target - 0.1, target, target + 0.1, target})
				}
				i++
				if _, err := v.Step(ctx, actions); err != nil {
					b.Fatal(err)
				}
			}
			for range 3000 { // until every slice has grown
				step()
			}
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(n*bc.pods)*float64(b.N)/b.Elapsed().Seconds(), "pod-steps/s")
		})
	}
}
