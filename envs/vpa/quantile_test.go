package vpa

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// TestQuantile: amounts by hand of a window of five samples, 100 m and 1 GiB to 500 m and 5 GiB, after others of 10 cores
// and 100 GiB.
func TestQuantile(t *testing.T) {
	task := drawn(t, false, func(o *Options) { o.Interval = 720 })
	task.metrics.Reset()
	for range 50 {
		task.metrics.Observe(amounts(10000, 100))
	}
	for i := range int64(5) {
		task.metrics.Observe(amounts(100*(i+1), float64(i+1)))
	}
	at := func(cpu int64, mem float64) cluster.Resources { // rounded up
		return cluster.Resources{MilliCPU: cpu, MemoryBytes: int64(math.Ceil(mem * gib))}
	}
	for _, tc := range []struct {
		name string
		q    Quantile
		want pods.Recommendation
	}{
		// The median is 300 m, times 1.5; the peak 5 GiB, times 0.8. Bounds are a quarter away: 450/1.25, 450·1.25.
		{"limits by factors", Quantile{CPU: 0.5, CPUMargin: 1.5, Memory: 1, MemoryMargin: 0.8, Window: 1, Band: 0.25,
			CPULimit: LimitFactor, CPUFactor: 2, MemoryLimit: LimitPeak, MemoryFactor: 1.5},
			pods.Recommendation{Lower: at(360, 3.2), Target: at(450, 4), Upper: at(563, 5), Uncapped: at(450, 4), Limits: at(900, 7.5), SetLimits: true}},
		// Rank 0.9·4 = 3.6: 400 + 0.6·100 m, 4.6 GiB. The limit by the peak is no less than the request.
		{"limits by requests", Quantile{CPU: 0.9, CPUMargin: 1, Memory: 0.75, MemoryMargin: 1.5, Window: 1,
			CPULimit: LimitRequest, CPUFactor: 3, MemoryLimit: LimitPeak, MemoryFactor: 1},
			pods.Recommendation{Lower: at(460, 6), Target: at(460, 6), Upper: at(460, 6), Uncapped: at(460, 6), Limits: at(460, 6), SetLimits: true}},
		{"no limits, window of two samples", Quantile{CPU: 0, CPUMargin: 1, Memory: 0, MemoryMargin: 1, Window: 0.4, CPULimit: LimitNone, MemoryLimit: LimitNone},
			pods.Recommendation{Lower: at(400, 4), Target: at(400, 4), Upper: at(400, 4), Uncapped: at(400, 4), SetLimits: true}},
	} {
		got, ok := (&quantileRule{tc.q}).recommend(t.Context(), task, true, &quantileState{})
		if diff := cmp.Diff(tc.want, got); diff != "" || !ok {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestQuantileAfterKill: a kill sets a new recommendation at once, whose memory is no less than the bump times what was in
// use, for a day.
func TestQuantileAfterKill(t *testing.T) {
	task := drawn(t, false, func(o *Options) { o.Interval = 3600 })
	task.metrics.Reset()
	task.metrics.Observe(amounts(100, 1))
	q, s := quantileRule{Quantile{CPU: 1, CPUMargin: 1, Memory: 1, MemoryMargin: 1, Window: 24, Period: 300, Bump: 2}}, quantileState{}
	memory := func(step int, killed bool) float64 {
		task.steps, task.dynamics.Pods[0].OOM, task.dynamics.Pods[0].Used = step, killed, amounts(0, 1.5)
		r, ok := q.recommend(t.Context(), task, step == 0, &s)
		if !ok {
			return -1
		}
		return float64(r.Target.MemoryBytes) / gib
	}
	var got []float64
	for step := range 31 {
		if m := memory(step, step == 4); m >= 0 || step == 4 {
			got = append(got, m)
		}
	}
	// Each five hours, and at the kill in step 4; until step 28.
	if want := []float64{1, 3, 3, 3, 3, 3, 3, 1}; !cmp.Equal(got, want) {
		t.Errorf("GiB recommended %v, want %v", got, want)
	}
}

// sharedTask returns a task on a shared node.
func sharedTask(t *testing.T, change func(*SharedOptions)) *Task {
	t.Helper()
	o := DefaultSharedOptions()
	change(&o)
	src, err := newSharedSource(o)
	if err != nil {
		t.Fatal(err)
	}
	return newTask(src)
}

// byName returns the policy of a baseline of the specification.
func byName(t *testing.T, id, name string, task *Task) envs.Policy {
	t.Helper()
	spec, err := envs.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	b, err := spec.Baseline(name)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := b.New(task)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// playSeed plays an episode by a policy and returns the task's costs.
func playSeed(t *testing.T, task *Task, policy envs.Policy, seed uint64) prices.Costs {
	t.Helper()
	ctx, c := context.Background(), sim.New()
	if err := task.Begin(ctx, c, rand.New(pcg.New(seed))); err != nil {
		t.Fatal(err)
	}
	_, act := task.Spaces()
	action := make([]float32, act.Size())
	for i := range task.MaxEpisodeSteps() {
		if err := policy(ctx, c.State(), i == 0, action); err != nil {
			t.Fatal(err)
		}
		if _, err := task.Apply(ctx, c, action); err != nil {
			t.Fatal(err)
		}
	}
	return task.ledger.Total
}

// TestResidualOfZeros: actions of zeros are the tuned baseline, whatever they hold for; others are not.
func TestResidualOfZeros(t *testing.T) {
	const id = "k8s/VerticalPodAutoscaler-v1"
	constant := func(x float32) envs.Policy {
		return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
			for i := range action {
				action[i] = x
			}
			return nil
		}
	}
	for seed := range uint64(4) {
		task := sharedTask(t, func(o *SharedOptions) { o.Faults = 5 })
		want := playSeed(t, task, byName(t, id, "quantile_tuned", task), seed)
		for _, hold := range []int{1, 60} {
			residual := func() *Task {
				return sharedTask(t, func(o *SharedOptions) { o.Faults, o.Hold, o.Encoding = 5, hold, EncodingResidual })
			}
			if got := playSeed(t, residual(), constant(0), seed); got != want {
				t.Errorf("seed %d, hold %d: zeros cost %+v, and the baseline %+v", seed, hold, got, want)
			}
			if got := playSeed(t, residual(), constant(0.3), seed); got == want {
				t.Errorf("seed %d, hold %d: corrections of 0.3 cost what the baseline costs", seed, hold)
			}
		}
	}
}

// TestTrickDoesNotPay: the median of the last day without limits, set once a day, is cheaper than Goldilocks where the pods have
// their node to themselves, and dearer than the tuned quantile where they share it. Seeds of training.
func TestTrickDoesNotPay(t *testing.T) {
	const trick = "quantile:cpu=0.5,cpu_margin=1,memory=0.5,memory_margin=1,period_min=1440,cpu_limit=none,memory_limit=none,band=0"
	mean := func(id, name string, task func() *Task) float64 {
		sum := 0.0
		for seed := range uint64(20) {
			one := task()
			c := playSeed(t, one, byName(t, id, name, one), seed)
			sum += (c.Slack + c.Overrun + c.Change + c.Harm) / 20
		}
		return sum
	}
	alone := func() *Task { return drawn(t, false, func(o *Options) { o.Steps = 1440 }) }
	const v0, v1 = "k8s/VerticalPodAutoscaler-v0", "k8s/VerticalPodAutoscaler-v1"
	if got, other := mean(v0, trick, alone), mean(v0, "goldilocks_burstable", alone); got > 0.8*other {
		t.Errorf("alone: %v without limits, %v by Goldilocks; want a fifth less", got, other)
	}
	together := func() *Task { return sharedTask(t, func(*SharedOptions) {}) }
	if got, other := mean(v1, trick, together), mean(v1, "quantile_tuned", together); got < 1.25*other {
		t.Errorf("together: %v without limits, %v tuned; want a quarter more", got, other)
	}
}
