package classic

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// TestTogetherEqualsAlone compares a vector that steps its environments together with one that steps each alone, as it does
// where failures are isolated: batches and states are equal in each mode, also for shards that are no whole vectors.
func TestTogetherEqualsAlone(t *testing.T) {
	ctx := t.Context()
	for _, tc := range []struct {
		mode          envs.AutoresetMode
		n, shards     int
		steps, limit  int
		options       map[string]any
		resets, saves bool
	}{
		{mode: envs.NextStep, n: 150, shards: 1, steps: 400},
		{mode: envs.NextStep, n: 67, shards: 3, steps: 400, limit: 9},
		{mode: envs.SameStep, n: 150, shards: 2, steps: 400, options: map[string]any{"sutton_barto_reward": true}},
		{mode: envs.SameStep, n: 1, shards: 1, steps: 400, limit: 30},
		{mode: envs.Disabled, n: 65, shards: 1, steps: 400, resets: true},
		{mode: envs.NextStep, n: 70, shards: 1, steps: 200, saves: true},
	} {
		opts := envs.VecOptions{Autoreset: tc.mode, Shards: tc.shards, MaxEpisodeSteps: tc.limit, Options: tc.options, Portable: true}
		together := makeCartPole(t, tc.n, opts)
		opts.Isolate = true
		alone := makeCartPole(t, tc.n, opts)
		seed, actions, rng := uint64(5), make([]float32, tc.n), rand.New(pcg.New(2))
		compare := func(step int, a, b *envs.Batch) {
			t.Helper()
			want := *b
			want.Failed = nil
			if !reflect.DeepEqual(&want, a) { // cmp takes seconds for all steps
				t.Fatalf("%+v, step %d (-alone +together):\n%s", tc, step, cmp.Diff(&want, a))
			}
		}
		reset := func(step int, o envs.VecResetOptions) *envs.Batch {
			t.Helper()
			a, err := together.Reset(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			b, err := alone.Reset(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			compare(step, a, b)
			return a
		}
		last := reset(0, envs.VecResetOptions{Seed: &seed})
		var saved [2]*envs.Saved
		ended := 0
		for step := range tc.steps {
			for i := range actions {
				actions[i] = float32(rng.IntN(2))
			}
			if tc.resets {
				mask, some := make([]bool, tc.n), false
				for i := range mask {
					mask[i] = last.Done(i)
					some = some || mask[i]
				}
				if some {
					reset(step, envs.VecResetOptions{Mask: mask, Options: map[string]any{"low": -1.5, "high": 1.5}})
				}
			}
			a, err := together.Step(ctx, actions)
			if err != nil {
				t.Fatal(err)
			}
			b, err := alone.Step(ctx, actions)
			if err != nil {
				t.Fatal(err)
			}
			compare(step, a, b)
			last = a
			for i := range tc.n {
				if a.Done(i) {
					ended++
				}
			}
			if tc.saves && step%50 == 20 {
				for k, v := range []*envs.Vec{together, alone} {
					if saved[k] != nil {
						if _, err := v.Load(saved[k]); err != nil {
							t.Fatal(err)
						}
					}
					if saved[k], err = v.Save(ctx); err != nil {
						t.Fatal(err)
					}
				}
				compare(step, together.Last(), alone.Last())
			}
		}
		if ended < tc.steps*tc.n/60 {
			t.Errorf("%+v: %d episodes ended", tc, ended)
		}
		a, err := together.AppendState(nil, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		b, err := alone.AppendState(nil, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) {
			t.Errorf("%+v: states of %d and %d bytes differ", tc, len(a), len(b))
		}
	}
}
