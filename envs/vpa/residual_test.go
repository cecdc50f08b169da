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
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

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

// TestResidualOfZeros: actions of zeros are the baseline that they correct, whatever they hold for; others are not.
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
	for encoding, baseline := range map[string]string{EncodingResidual: "quantile_tuned", EncodingNodeAware: "node_aware"} {
		for seed := range uint64(4) {
			task := sharedTask(t, func(o *SharedOptions) { o.Faults = 5 })
			want := playSeed(t, task, byName(t, id, baseline, task), seed)
			for _, hold := range []int{1, 60} {
				residual := func() *Task {
					return sharedTask(t, func(o *SharedOptions) { o.Faults, o.Hold, o.Encoding = 5, hold, encoding })
				}
				if got := playSeed(t, residual(), constant(0), seed); got != want {
					t.Errorf("%s, seed %d, hold %d: zeros cost %+v, and the baseline %+v", encoding, seed, hold, got, want)
				}
				if got := playSeed(t, residual(), constant(0.3), seed); got == want {
					t.Errorf("%s, seed %d, hold %d: corrections of 0.3 cost what the baseline costs", encoding, seed, hold)
				}
			}
		}
	}
}

// TestForkKeepsItsBase: two environments of one seed go the ways that they go where the second is a copy of the first.
func TestForkKeepsItsBase(t *testing.T) {
	play := func(encoding string, size int, fork bool) (rewards []float64) {
		v, err := envs.Make("k8s/VerticalPodAutoscaler-v1", 2, envs.VecOptions{
			Options: map[string]any{"encoding": encoding, "interval_s": 3600, "steps": 50}, Autoreset: envs.Disabled, Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if _, err := v.Reset(t.Context(), envs.VecResetOptions{Seeds: []uint64{7, 7}}); err != nil {
			t.Fatal(err)
		}
		for step := range 50 {
			actions := make([]float32, 2*size)
			if step >= 10 {
				copy(actions, []float32{-1, 0, -0.5, 0}) // the first throttles its pods
			}
			if step == 10 && fork {
				if _, err := v.Fork(0, []int{1}); err != nil {
					t.Fatal(err)
				}
			}
			b, err := v.Step(t.Context(), actions)
			if err != nil {
				t.Fatal(err)
			}
			rewards = append(rewards, b.Reward...)
		}
		return rewards
	}
	for encoding, size := range map[string]int{EncodingResidual: 4, EncodingNodeAware: 7} {
		if diff := cmp.Diff(play(encoding, size, false), play(encoding, size, true)); diff != "" {
			t.Errorf("%s: rewards (-separate +forked):\n%s", encoding, diff)
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
