package vpa

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/vpa/actions"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/rules"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// play plays steps of an episode by a baseline on a task of the given demand, and calls each
// after every decision, before its step.
func play(t *testing.T, task *Task, name string, steps int, each func(step int)) {
	t.Helper()
	var base *envs.Baseline
	all := rules.Plain(follow)
	for i := range all {
		if all[i].Name == name {
			base = &all[i]
		}
	}
	policy, err := base.New(task)
	if err != nil {
		t.Fatal(err)
	}
	ctx, c := context.Background(), sim.New()
	if err := task.Begin(ctx, c, rand.New(pcg.New(1))); err != nil {
		t.Fatal(err)
	}
	_, act := task.Spaces()
	action := make([]float32, act.Size())
	for i := range steps {
		if err := policy(ctx, c.State(), i == 0, action); err != nil {
			t.Fatal(err)
		}
		each(i)
		if _, err := task.Apply(ctx, c, action); err != nil {
			t.Fatal(err)
		}
	}
}

// lowHigh returns a task of the given options whose demand is 500 m and 2500 MiB in even, 1000 m
// and 5000 MiB in odd samples, with ample requests.
func lowHigh(t *testing.T, change func(*Options)) *Task {
	t.Helper()
	config, err := workload.DefaultConfig(workload.LowHigh)
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultOptions()
	o.Steps, o.History, o.InitialLow, o.InitialHigh = 1500, 0, 20, 20
	change(&o)
	if err := o.check(1, EncodingLog, EncodingRelative, EncodingUpstream); err != nil {
		t.Fatal(err)
	}
	src, err := newSource(o, false)
	if err != nil {
		t.Fatal(err)
	}
	config.Timesteps = src.history + o.Steps
	series, err := config.Series()
	if err != nil {
		t.Fatal(err)
	}
	series.Requests, series.Limits = cluster.Resources{}, cluster.Resources{}
	src.series = []workload.Series{series}
	return newTask(src)
}

// TestUpstreamBaseline feeds the upstream recommender by way of the environment and compares
// with what upstream's own packages give for the same samples: the worked example of its fact
// sheet, rows of the golden file. Sample 1 is the history, so that the decision of step n sees
// n+1 samples.
func TestUpstreamBaseline(t *testing.T) {
	want := map[int][2]cluster.Resources{ // by number of samples: lower bound and target
		1:    {{MilliCPU: 25, MemoryBytes: 262144000}, {MilliCPU: 587, MemoryBytes: 3136195110}},
		2:    {{MilliCPU: 196, MemoryBytes: 1027523334}, {MilliCPU: 1168, MemoryBytes: 6117462922}},
		61:   {{MilliCPU: 559, MemoryBytes: 5834067270}, {MilliCPU: 1168, MemoryBytes: 6117462922}},
		1441: {{MilliCPU: 585, MemoryBytes: 3129932115}, {MilliCPU: 1168, MemoryBytes: 6117462922}},
	}
	task := lowHigh(t, func(o *Options) { o.Mode = pods.ModeOff })
	compared := 0
	play(t, task, "upstream", 1500, func(step int) {
		rows, ok := want[step+1]
		if !ok {
			return
		}
		compared++
		if diff := cmp.Diff(rows, [2]cluster.Resources{task.plan.given.Lower, task.plan.given.Target}); diff != "" {
			t.Errorf("after %d samples (-want +got):\n%s", step+1, diff)
		}
	})
	if compared != len(want) {
		t.Errorf("compared %d rows, want %d", compared, len(want))
	}
}

// TestUpstreamSeesOOM: after a kill with a request of r, upstream's memory target holds
// max(1.2·r, r + 100 MiB), its bump.
func TestUpstreamSeesOOM(t *testing.T) {
	// Requests of 3000 MiB at the start, limits 3600 MiB: 5000 MiB are killed in the first step.
	task := lowHigh(t, func(o *Options) { o.Mode, o.InitialLow, o.InitialHigh, o.Steps = pods.ModeOff, 1.2, 1.2, 10 })
	play(t, task, "upstream", 2, func(step int) {
		if step == 0 {
			return
		}
		if task.dynamics.Last.OOMs != 1 {
			t.Fatalf("%d OOM kills in the first step, want 1", task.dynamics.Last.OOMs)
		}
		// The sample of the step is the limit, 3600 MiB; the bump 1.2·max(3000, 3600) = 4320 MiB,
		// whose bucket, 64, ends at 1e7·(1.05^65 − 1)/0.05 = 4567980111 B; with 15 % that is 5253177127.
		if got := task.plan.given.Target.MemoryBytes; got != 5253177127 {
			t.Errorf("memory target %d B after the kill, want 5253177127", got)
		}
	})
}

// TestGoldilocksBurstable: the request is the lower bound, the limit the upper bound, and
// neither changes within the day.
func TestGoldilocksBurstable(t *testing.T) {
	task := lowHigh(t, func(o *Options) { o.History, o.Steps, o.MaxMemory, o.NodeMemory = 24, 100, 1e6, 1e6 })
	play(t, task, "goldilocks_burstable", 100, func(step int) {
		if step == 0 {
			return
		}
		// 1440 samples, the last of them high, so that the median is: 1168 m with its margin, of
		// a confidence c = 1439/1440. Lower bound 1168·(1 + 0.001/c)^-2 = 1165.66, upper bound
		// 1168·(1 + 1/c) = 2336.8.
		p := &task.dynamics.Pods[0]
		if p.Requests.MilliCPU != 1165 || p.Limits.MilliCPU != 2336 || task.ledger.Sum.Evictions > 1 {
			t.Fatalf("step %d: request %d m, limit %d m after %d evictions", step, p.Requests.MilliCPU, p.Limits.MilliCPU, task.ledger.Sum.Evictions)
		}
	})
}

// TestKRRSimple: CPU at the 95th percentile of 500 and 1000 m in turn, 1000 m, without a limit;
// memory at the peak plus 15 %, 5750 MiB, as request and limit.
func TestKRRSimple(t *testing.T) {
	task := lowHigh(t, func(o *Options) { o.History, o.Steps = 24, 100 })
	play(t, task, "krr_simple", 100, func(step int) {
		if step == 0 {
			return
		}
		p := &task.dynamics.Pods[0]
		want := [2]cluster.Resources{{MilliCPU: 1000, MemoryBytes: 5750 * mib}, {MilliCPU: 0, MemoryBytes: 5750 * mib}}
		if diff := cmp.Diff(want, [2]cluster.Resources{p.Requests, p.Limits}); diff != "" {
			t.Fatalf("step %d: requests and limits (-want +got):\n%s", step, diff)
		}
	})
}

// TestKRRLooksBackTwoWeeks: of 16 days the first is ten times as high, and no matter any more.
func TestKRRLooksBackTwoWeeks(t *testing.T) {
	task := lowHigh(t, func(o *Options) { o.History, o.Steps = 16*24, 3 })
	usage := task.src.series[0].Usage
	for i := range usage[:24*60] {
		usage[i] = cluster.Resources{MilliCPU: 10000, MemoryBytes: 50000 * mib}
	}
	play(t, task, "krr_simple", 3, func(step int) {
		if got, want := task.plan.given.Target, (cluster.Resources{MilliCPU: 1000, MemoryBytes: 5750 * mib}); step == 0 && got != want {
			t.Errorf("target %v, want %v", got, want)
		}
	})
}

// TestHindsightStatic: 500 m and 1000 m in turn, and 2500 and 5000 MiB. With equal weights and
// limits of twice the request, CPU of 500 to 1000 m costs the same 500 m of slack or overrun
// in two steps; memory must be 5000/1.2 = 4166.7 MiB at least, which the grid has at 334/400.
func TestHindsightStatic(t *testing.T) {
	task := lowHigh(t, func(o *Options) { o.Steps = 100 })
	play(t, task, "hindsight_static", 100, func(step int) {
		if step == 0 {
			if got := task.plan.given.Target; got.MilliCPU < 500 || got.MilliCPU > 1000 || got.MemoryBytes != 4175*mib {
				t.Errorf("target %v, want 500 to 1000 m and 4175 MiB", got)
			}
		}
	})
	if task.ledger.Sum.OOMs != 0 || task.ledger.Sum.ThrottledCPU != 0 {
		t.Errorf("%d OOM kills, %v m throttled", task.ledger.Sum.OOMs, task.ledger.Sum.ThrottledCPU)
	}
}

// BenchmarkUpstream steps an environment with the upstream recommender.
func BenchmarkUpstream(b *testing.B) {
	src, err := newSource(DefaultOptions(), false)
	if err != nil {
		b.Fatal(err)
	}
	task, c, ctx := newTask(src), sim.New(), context.Background()
	policy, err := follow(rules.Upstream)(task)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(pcg.New(1))
	action, obs := make([]float32, actions.Size), make([]float32, obsSize)
	step := 0
	one := func() {
		first := step%task.opts.Steps == 0
		if first {
			if err := c.Reset(ctx); err != nil {
				b.Fatal(err)
			}
			if err := task.Begin(ctx, c, rng); err != nil {
				b.Fatal(err)
			}
		}
		if err := policy(ctx, c.State(), first, action); err != nil {
			b.Fatal(err)
		}
		if _, err := task.Apply(ctx, c, action); err != nil {
			b.Fatal(err)
		}
		task.Observe(c.State(), obs, nil)
		step++
	}
	for range 5 * task.opts.Steps { // until every slice has grown
		one()
	}
	b.ReportAllocs()
	for b.Loop() {
		one()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pod-steps/s")
}
