package gang_test

import (
	"context"
	"math"
	"runtime"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"

	_ "github.com/kubernasium/kubernasium/envs/gang"
)

var ctx = context.Background()

func spec(tb testing.TB) *envs.Spec {
	tb.Helper()
	return envstest.Spec(tb, "k8s/GangWindow-v0")
}

func TestContract(t *testing.T) {
	for i, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"generated", map[string]any{}},
		{"held-out, longest windows", map[string]any{"split": "heldout", "windows": 20, "horizon": 20, "steps": 30}},
		{"wrong profile", map[string]any{"scale_error": 0.4, "exponent_error": 0.2, "steps": 50}},
		{"pool, noise, stragglers, per task", map[string]any{"instances": 4, "noise": 1.0, "straggler_prob": 0.01, "penalty_model": "per_task", "steps": 50}},
		{"resize, persistence", map[string]any{"penalty_model": "resize", "forecaster": "persistence", "steps": 40, "windows": 1, "horizon": 1}},
		{"perfect", map[string]any{"forecaster": "perfect", "steps": 40}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			envstest.EveryThird(t, i)
			if testing.Short() {
				tc.opts["steps"] = 20
			}
			envcheck.Run(t, spec(t), envcheck.Options{Options: tc.opts, SkipBaselines: tc.name != "generated"})
		})
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, tc := range []struct {
		opts map[string]any
		want string
	}{
		{map[string]any{"window": 3}, `did you mean "windows"?`},
		{map[string]any{"windows": 21}, "windows is 21, want 1 to 20"},
		{map[string]any{"horizon": 0}, "horizon is 0, want 1 to 20"},
		{map[string]any{"dynamics": "fast"}, `dynamics is "fast", want one of ["sound" "compatible"]`},
		{map[string]any{"dynamics": "compatible"}, "compatible dynamics need data"},
		{map[string]any{"forecaster": "file"}, "forecaster file needs data and the heldout split"},
		{map[string]any{"scale_error": 2.5}, "scale_error is 2.5, want 0 to 2"},
		{map[string]any{"straggler_prob": 1.5}, "straggler_prob is 1.5, want 0 to 1"},
		{map[string]any{"penalty": math.NaN()}, "penalty is NaN"},
		{map[string]any{"total_cpu_m": 7900}, "total_cpu_m is 7900, want start_cpu_m, 1000, for each of the profile's 8 tasks and a multiple of increment_cpu_m, 100, more"},
		{map[string]any{"increment_cpu_m": 300}, "total_cpu_m is 24000, want"},
		{map[string]any{"total_cpu_m": 100_000, "increment_cpu_m": 1}, "total_cpu_m is 100000, want start_cpu_m, 1000, for each of the profile's 8 tasks and a multiple of increment_cpu_m, 1, more, at most 65533 times it"},
		{map[string]any{"noise": 1.0, "profile": envstest.TempFile(t, "p.csv", gangtest.WithSizeZero())}, "noise, straggler_prob, scale_error and exponent_error are by the laws of the profile's tasks, and the points of a determine none"},
		{map[string]any{"size_high": 10.0}, "size_high is 10, want"},
		{map[string]any{"size_low": 1e9, "size_high": 1e9}, "size_high is 1e+09, want"}, // observations divide by their difference
		{map[string]any{"duration_low": 100.0, "duration_high": 50.0}, "duration_high is 50"},
		{map[string]any{"duration_low": 1e6, "duration_high": 1e6}, "duration_high is 1e+06, want"},
	} {
		envstest.CheckInvalid(t, spec(t).ID, tc.opts, tc.want)
	}
	if _, err := spec(t).Open(map[string]any{"data": t.TempDir()}); err == nil {
		t.Error("Open with an empty data folder: no error")
	}
}

func benchmarkSteps(b *testing.B, n int, opts map[string]any) {
	v, err := envs.NewVec(spec(b), n, envs.VecOptions{Options: opts, Autoreset: envs.SameStep, Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		b.Fatal(err)
	}
	actions := make([]float32, n)
	i := 0
	step := func() {
		for k := range actions {
			actions[k] = float32((i + k) % 3) // 0, 1, 2, …: reconfigures in two steps of three
		}
		i++
		if _, err := v.Step(ctx, actions); err != nil {
			b.Fatal(err)
		}
	}
	if opts["instances"] != nil {
		for range 5000 { // until every instance has been drawn
			step()
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "steps/s")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-from-OS")
}

func BenchmarkStep(b *testing.B) {
	b.Run("prepared", func(b *testing.B) { benchmarkSteps(b, 8, map[string]any{"instances": 4}) })
	b.Run("new instance each episode", func(b *testing.B) { benchmarkSteps(b, 8, nil) })
	b.Run("new instance each episode, windows 1 to 10", func(b *testing.B) { benchmarkSteps(b, 8, map[string]any{"windows": 10}) })
	b.Run("new instance each episode, windows 1 to 20", func(b *testing.B) { benchmarkSteps(b, 8, map[string]any{"windows": 20}) })
	b.Run("64 environments, new instances", func(b *testing.B) { benchmarkSteps(b, 64, nil) })
}

// BenchmarkReset draws a new instance and observes its first step.
func BenchmarkReset(b *testing.B) {
	v := open(b, 1, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
