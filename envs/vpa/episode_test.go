package vpa_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/vpa/actions"
)

func open(tb testing.TB, id string, opts map[string]any) *envs.Vec {
	tb.Helper()
	return envstest.Open(tb, id, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
}

var (
	reset  = envstest.Reset
	step   = envstest.Step
	column = envstest.Column
)

// usageFile writes usage of a minute for each pair of millicores and MiB.
func usageFile(tb testing.TB, usage ...[2]float64) string {
	tb.Helper()
	var text strings.Builder
	text.WriteString("time_s,cpu_m,mem_b\n")
	for i, u := range usage {
		fmt.Fprintf(&text, "%d,%v,%v\n", 60*i, u[0], u[1]*(1<<20))
	}
	return envstest.TempFile(tb, "usage.csv", text.String())
}

// fixed are options of an episode from a file whose containers request at the start what the
// first sample uses; at element 0 of an action are 2000 m and 2048 MiB.
func fixed(path string, steps int, more map[string]any) map[string]any {
	opts := map[string]any{
		"data": path, "split": "all", "steps": steps, "history_h": 0, "initial_low": 1, "initial_high": 1,
		"min_allowed_cpu_m": 1000, "max_allowed_cpu_m": 4000, "min_allowed_memory_mib": 1024, "max_allowed_memory_mib": 4096,
	}
	for k, v := range more {
		opts[k] = v
	}
	return opts
}

// both returns the continuous action with all elements of CPU and all of memory alike.
func both(cpu, mem float32) []float32 { return []float32{cpu, cpu, cpu, cpu, mem, mem, mem, mem} }

// TestHandWorkedEpisode plays the episode of README.md, section "An episode by hand".
func TestHandWorkedEpisode(t *testing.T) {
	path := usageFile(t, [2]float64{1000, 1024}, [2]float64{1000, 1024}, [2]float64{3000, 1024}, [2]float64{1000, 1536}, [2]float64{1000, 1536})
	v := open(t, continuous, fixed(path, 4, nil))
	b := reset(t, v, 1)
	for i, tc := range []struct {
		mem                                float32
		slack, overrun, change             float64
		ooms, evictions, restarts, request float64
	}{
		{-1, 0, 0, 0, 0, 0, 0, 1024},
		{-1, 0, 0.11, 0, 0, 0, 0, 1024},
		{-1, 0.005, 1.350266667, 0, 1, 0, 1, 1024},
		{0, 0.005666667, 0.05, 0.25, 1, 1, 2, 2048},
	} {
		b = step(t, v, both(-1, tc.mem)...)
		got := []float64{column(t, v, b, "slack_cost"), column(t, v, b, "overrun_cost"), column(t, v, b, "change_cost"), b.Reward[0],
			column(t, v, b, "ooms"), column(t, v, b, "evictions"), column(t, v, b, "restarts")}
		want := []float64{tc.slack, tc.overrun, tc.change, -(tc.slack + tc.overrun + tc.change), tc.ooms, tc.evictions, tc.restarts}
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-8)); diff != "" {
			t.Errorf("step %d: slack, overrun, change, reward, OOMs, evictions, restarts (-want +got):\n%s", i+1, diff)
		}
	}
	if !b.Truncated[0] || b.Terminated[0] {
		t.Errorf("after four steps: terminated %v, truncated %v; want false, true", b.Terminated[0], b.Truncated[0])
	}
	for name, want := range map[string]float64{
		"cost": 1.770933333,
		// Requests: 3 times 1 core and 1 GiB, once 1 core and 2 GiB; unused: half a core twice,
		// half a GiB once.
		"slack_pct":      100 * (1 + 0.5/7.5) / (4 + 5/7.5),
		"throttled_pct":  100 * 1000. / 6000,
		"down_pct":       100 * 1000. / 6000,
		"overrun_core_h": 1. / 60, "lost_core_h": 180. / 3600, "slack_gib_h": 0.5 / 60, "request_gib_h": 5. / 60, "down": 0,
	} {
		if got := column(t, v, b, name); math.Abs(got-want) > 1e-8 {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	s := v.Env(0).State()
	if s.Now != 4*time.Minute || len(s.Pods) != 2 || s.Pods[0].Phase != cluster.Deleted || s.Pods[1].Phase != cluster.Running {
		t.Errorf("cluster at the end:\n%v", s)
	}
	p := s.Pods[1]
	// The memory limit is trunc(1.2·2^30) at the start, and twice that for twice the request.
	wantPod := []cluster.Resources{{MilliCPU: 1000, MemoryBytes: 2 << 30}, {MilliCPU: 2000, MemoryBytes: 2 * 1288490188}, {MilliCPU: 500, MemoryBytes: 1536 << 20}}
	if diff := cmp.Diff(wantPod, []cluster.Resources{p.Requests, p.Limits, p.Usage}); diff != "" {
		t.Errorf("requests, limits and usage of the new pod (-want +got):\n%s", diff)
	}
}

// TestGoldenEpisode pins a generated episode of two pods: a change of any law, rule or draw
// shows here and must be meant.
func TestGoldenEpisode(t *testing.T) {
	v := open(t, continuous, map[string]any{"steps": 30, "pods": 2, "mode": "InPlaceOrRecreate", "workload": "random_walk", "interval_s": 300})
	b := reset(t, v, 42)
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, "%2d", i)
		for _, x := range b.Obs {
			fmt.Fprintf(&text, " %.4f", x)
		}
		a := float32(i%7)/20 - 0.1
		b = step(t, v, a-0.1, a, a+0.1, a, a, a, a, a)
		fmt.Fprintf(&text, "\n   reward %.6f", b.Reward[0])
		for k, c := range v.Spec().Info {
			fmt.Fprintf(&text, " %s %.5g", c.Name, b.Info[k])
		}
		text.WriteByte('\n')
	}
	envstest.Golden(t, "episode", text.String())
}

// TestOptimum compares the hindsight maximum with the best of all 49³ sequences of actions on
// an instance of three steps: demand doubles at once, and one resize in place, for 0.02 h, makes
// requests equal to it for good.
func TestOptimum(t *testing.T) {
	u := [2]float64{2000, 2048}
	path := usageFile(t, [2]float64{1000, 1024}, u, u, u)
	opts := fixed(path, 3, map[string]any{"mode": "InPlaceOrRecreate", "min_allowed_cpu_m": 1, "min_allowed_memory_mib": 1})
	v := open(t, discrete, opts)
	n := len(actions.Factors)
	best := math.Inf(-1)
	total := n * n * n * n * n * n
	if testing.Short() {
		total /= 7 // first actions that scale CPU by 0.5 only
	}
	for code := range total {
		reset(t, v, 1)
		ret := 0.0
		for k := code; ; k /= n * n {
			b := step(t, v, float32(k%(n*n)))
			ret += b.Reward[0]
			if b.Done(0) {
				break
			}
		}
		best = max(best, ret)
	}
	if math.Abs(best+0.02) > 1e-9 {
		t.Errorf("best return of all sequences is %v, want -0.02: one resize", best)
	}
	if got := playBaseline(t, v, "hindsight_max"); math.Abs(got-best) > 1e-9 {
		t.Errorf("hindsight_max returns %v, the best sequence %v", got, best)
	}
}

// playBaseline plays an episode of seed 1 and returns its return.
func playBaseline(tb testing.TB, v *envs.Vec, name string) float64 {
	tb.Helper()
	return envstest.Play(tb, v, envstest.Policy(tb, v, name), 1).EpisodeReturn[0]
}

// TestHindsightMaxIsSafe: with limits of at least the largest demand from the first step on,
// nothing is throttled and nothing killed, whatever the workload.
func TestHindsightMaxIsSafe(t *testing.T) {
	for _, kind := range []string{"constant", "low_high", "sinusoidal", "step", "random_walk", "azure", "alibaba", "borg", "arabesque"} {
		v := open(t, continuous, map[string]any{"workload": kind, "steps": 300, "pods": 2, "min_replicas": 2, "eviction_tolerance": 1, "max_allowed_cpu_m": 640000,
			"node_cpu_m": 1e7, "node_memory_mib": 1e7, "max_allowed_memory_mib": 1e7})
		playBaseline(t, v, "hindsight_max")
		b := step0(t, v)
		if throttled, ooms := b[2], b[3]; throttled != 0 || ooms != 0 {
			t.Errorf("%s: %v %% throttled, %v OOM kills", kind, throttled, ooms)
		}
	}
}

// step0 returns the diagnostics of the present moment.
func step0(tb testing.TB, v *envs.Vec) []float64 {
	tb.Helper()
	info := make([]float64, len(v.Spec().Info))
	v.Env(0).Info(info)
	return info
}

// TestBoundsOutOfOrder: the target stays, bounds on its wrong side move to it, and info says so.
func TestBoundsOutOfOrder(t *testing.T) {
	u := [2]float64{1000, 1024}
	v := open(t, continuous, fixed(usageFile(t, u, u, u, u), 3, nil))
	reset(t, v, 1)
	b := step(t, v, 1, 0, -1, 0, -1, -1, -1, -1) // CPU: lower 4000, target 2000, upper 1000
	if column(t, v, b, "repaired") != 1 || column(t, v, b, "evictions") != 1 {
		t.Errorf("repaired %v, evictions %v; want 1, 1", column(t, v, b, "repaired"), column(t, v, b, "evictions"))
	}
	if got := v.Env(0).State().Pods[1].Requests.MilliCPU; got != 2000 {
		t.Errorf("request %d m, want the target, 2000", got)
	}
	if b = step(t, v, 0, 0, 0, 0, -1, -1, -1, -1); column(t, v, b, "repaired") != 0 {
		t.Error("bounds in order are flagged as repaired")
	}
}

// TestExactBaselines: on the discrete environment, a baseline with exact amounts costs what it costs
// on the continuous one, with the same seed. Without them some cost something else.
func TestExactBaselines(t *testing.T) {
	cost := func(id, name string) float64 {
		return playBaseline(t, open(t, id, map[string]any{"steps": 300, "workload": "borg", "pods": 2}), name)
	}
	differ := 0
	for _, b := range spec(t, continuous).Baselines {
		if b.Name == "static" {
			continue // it asks for what there is, which a factor of 1 is exactly
		}
		want := cost(continuous, b.Name)
		if got := cost(discrete, b.Name+"_exact"); got != want || got == 0 {
			t.Errorf("%s: returns %v and %v, want equal ones", b.Name, want, got)
		}
		if cost(discrete, b.Name) != want {
			differ++
		}
	}
	if differ == 0 {
		t.Error("no baseline is changed by the factors of the discrete environment")
	}
}

// TestChart: a point of every line for each step, and the events that info counts.
func TestChart(t *testing.T) {
	v := open(t, discrete, map[string]any{"steps": 200, "mode": "InPlaceOrRecreate"})
	reset(t, v, 3)
	var b *envs.Batch
	for i := range 200 {
		b = step(t, v, float32(i*5%49))
	}
	chart := v.Env(0).Task().(envs.Charter).Chart()
	if len(chart.X) != 200 || chart.X[199] != 200./60 || len(chart.Panels) != 2 {
		t.Fatalf("%d steps to %v h in %d panels, want 200 to 3.33 h in 2", len(chart.X), chart.X[len(chart.X)-1], len(chart.Panels))
	}
	for _, p := range chart.Panels {
		for _, l := range p.Lines {
			if len(l.Y) != 200 {
				t.Errorf("%s of %s has %d points, want 200", l.Name, p.YLabel, len(l.Y))
			}
		}
	}
	for i, name := range []string{"ooms", "evictions", "resizes"} {
		if got, want := len(chart.Events[i].X), column(t, v, b, name); float64(got) != want || name == "resizes" && got == 0 {
			t.Errorf("%d events of %s, want %v, and some resizes", got, name, want)
		}
	}
}

// TestChartThrottles: of a demand of 3 cores a pod, whose limit becomes less, the line of what was throttled sums up to
// throttled_pct of all demand.
func TestChartThrottles(t *testing.T) {
	u := [2]float64{3000, 1024}
	v := open(t, continuous, fixed(usageFile(t, u, u, u, u, u, u, u, u, u), 8, nil))
	reset(t, v, 1)
	pods := float64(len(v.Env(0).State().Pods))
	var b *envs.Batch
	for range 8 {
		b = step(t, v, both(-1, 0)...)
	}
	lines, sum := v.Env(0).Task().(envs.Charter).Chart().Panels[0].Lines, 0.0
	line := lines[len(lines)-1]
	for _, y := range line.Y {
		sum += y
	}
	want := column(t, v, b, "throttled_pct")
	if got := 100 * sum / (3 * 8 * pods); line.Name != "throttled" || math.Abs(got-want) > 1e-4 || want == 0 {
		t.Errorf("%s is %v, %v %% of 24 cores for each of %v pods, want %v %%, which is some", line.Name, line.Y, got, pods, want)
	}
}

// TestLimitRangeCaps: a container LimitRange of at most 3000 m holds for the limit, which is
// twice the request.
func TestLimitRangeCaps(t *testing.T) {
	u := [2]float64{1000, 1024}
	v := open(t, continuous, fixed(usageFile(t, u, u, u), 2, map[string]any{"limit_range_max_cpu_m": 3000}))
	reset(t, v, 1)
	b := step(t, v, both(1, -1)...)
	p := v.Env(0).State().Pods[1]
	if column(t, v, b, "capped") != 1 || p.Requests.MilliCPU != 1500 || p.Limits.MilliCPU != 3000 {
		t.Errorf("capped %v, request %d, limit %d; want 1, 1500, 3000", column(t, v, b, "capped"), p.Requests.MilliCPU, p.Limits.MilliCPU)
	}
}

// TestLimitRangeCapsFixedLimits: limits that stay are within a LimitRange of at most 1800 m, too, although twice the
// request of 1000 m is more. They hold requests.
func TestLimitRangeCapsFixedLimits(t *testing.T) {
	u := [2]float64{1000, 1024}
	v := open(t, continuous, fixed(usageFile(t, u, u, u), 2, map[string]any{"limit_range_max_cpu_m": 1800, "controlled_values": "RequestsOnly"}))
	reset(t, v, 1)
	step(t, v, both(1, -1)...)
	for i, want := range []int64{1000, 1800} {
		if p := v.Env(0).State().Pods[i]; p.Requests.MilliCPU != want || p.Limits.MilliCPU != 1800 {
			t.Errorf("pod %d: request %d, limit %d; want %d, 1800", i, p.Requests.MilliCPU, p.Limits.MilliCPU, want)
		}
	}
}

// TestLimitRangeDefault: a container without a limit of CPU has the LimitRange's default, 1500 m
// for 1000 m, and at a target of 2000 m upstream's trunc(1500·2000/1000). A LimitRange of at most
// 2400 m leaves requests up to 2400·1000/1500 = 1600 m. A default of 800 m has a request of no more.
func TestLimitRangeDefault(t *testing.T) {
	u := [2]float64{1000, 1024}
	for _, tc := range []struct {
		implied, greatest int
		controlled        string
		first, request    int64 // of CPU: at the start, after the action
		limit             int64
	}{
		{1500, 0, "RequestsAndLimits", 1000, 2000, 3000},
		{1500, 2400, "RequestsAndLimits", 1000, 1600, 2400},
		{800, 0, "RequestsAndLimits", 800, 2000, 2000}, // equal stays equal
		{1500, 0, "RequestsOnly", 1000, 1500, 1500},    // held to the limit
	} {
		v := open(t, continuous, fixed(usageFile(t, u, u, u), 2, map[string]any{"limit_ratio_cpu": 0, "limit_range_default_cpu_m": tc.implied,
			"limit_range_max_cpu_m": tc.greatest, "controlled_values": tc.controlled}))
		reset(t, v, 1)
		first := v.Env(0).State().Pods[0]
		step(t, v, both(0, -1)...)
		p := v.Env(0).State().Pods[len(v.Env(0).State().Pods)-1]
		if first.Requests.MilliCPU != tc.first || first.Limits.MilliCPU != int64(tc.implied) || p.Requests.MilliCPU != tc.request || p.Limits.MilliCPU != tc.limit {
			t.Errorf("default %d m of at most %d m, %s: request and limit %d and %d, then %d and %d; want %d and %d, then %d and %d", tc.implied, tc.greatest, tc.controlled,
				first.Requests.MilliCPU, first.Limits.MilliCPU, p.Requests.MilliCPU, p.Limits.MilliCPU, tc.first, tc.implied, tc.request, tc.limit)
		}
	}
}
