package client_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// Resets that select nothing, or are refused, leave a remote vector as one of this process.
func TestResetAsHere(t *testing.T) {
	s := hosttest.Start(t)
	const id = "k8s/GangWindow-v0"
	seed := uint64(3)
	for _, mode := range modes {
		remote := dial(t, s.WS, id, 2, client.Options{Autoreset: mode, MaxEpisodeSteps: 2})
		here := local(t, id, 2, envs.VecOptions{Autoreset: mode, MaxEpisodeSteps: 2})
		var got, want []map[string]any
		for _, v := range []spacedVec{remote, here} {
			seen := &got
			if v == spacedVec(here) {
				seen = &want
			}
			keep := func(b *envs.Batch, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%v: %v", mode, err)
				}
				*seen = append(*seen, columns(b))
			}
			keep(v.Reset(ctx, envs.VecResetOptions{Seed: &seed}))
			keep(v.Step(ctx, []float32{1, 1}))
			keep(v.Step(ctx, []float32{1, 1})) // ends the episodes
			keep(v.Reset(ctx, envs.VecResetOptions{Mask: []bool{false, false}}))
			for name, opts := range map[string]envs.VecResetOptions{
				"both a seed and seeds": {Seed: &seed, Seeds: []uint64{1, 2}},
				"an unknown option":     {Options: map[string]any{"no such": 1}},
			} {
				if _, err := v.Reset(ctx, opts); !errors.Is(err, envs.ErrInvalidOption) {
					t.Errorf("%v: %T.Reset with %s: %v, want ErrInvalidOption", mode, v, name, err)
				}
			}
			_, err := v.Step(ctx, []float32{1, 1}) // after a reset that failed
			*seen = append(*seen, map[string]any{"reset needed": errors.Is(err, envs.ErrResetNeeded)})
			keep(v.Reset(ctx, envs.VecResetOptions{}))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%v (-here +wire):\n%s", mode, d)
		}
	}
}

// After a rollout that ends with the episodes' last step, the next step is what it is in this
// process: the first of new episodes, or in NEXT_STEP the reset before it.
func TestStepAfterRollout(t *testing.T) {
	s := hosttest.Start(t)
	const id = "k8s/GangWindow-v0"
	for mode, want := range map[envs.AutoresetMode]int64{envs.NextStep: 0, envs.SameStep: 1} {
		v := dial(t, s.WS, id, 2, client.Options{Autoreset: mode, MaxEpisodeSteps: 3})
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
		if b, _, err := v.Baseline("random", 0).Rollout(ctx, client.RolloutOptions{Steps: 3}); err != nil || !b.Truncated[0] {
			t.Fatalf("%v: rollout %v, %v; want its end truncated", mode, b, err)
		}
		b, err := v.Step(ctx, []float32{1, 1})
		if err != nil || b.EpisodeLength[0] != want {
			t.Errorf("%v: %v, length %v; want %d", mode, err, b.EpisodeLength, want)
		}
	}
	v := dial(t, s.WS, id, 2, client.Options{Autoreset: envs.Disabled, MaxEpisodeSteps: 3})
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := v.Baseline("random", 0).Rollout(ctx, client.RolloutOptions{Steps: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Step(ctx, []float32{1, 1}); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("DISABLED: %v, want ErrResetNeeded", err)
	}
}
