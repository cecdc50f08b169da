package client_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// stepwise is a rollout that is played here step by step.
func stepwise(t *testing.T, w *envs.Vec, policies *envs.Policies, steps int) (*envs.Batch, *wire.Rollout) {
	t.Helper()
	_, act := w.Spaces()
	n := w.NumEnvs()
	o := &wire.Rollout{Steps: steps, Transitions: &wire.Transitions{}}
	x := o.Transitions
	b := w.Last()
	for step := range steps {
		actions := make([]float32, n*act.Size())
		if err := policies.Act(ctx, actions); err != nil {
			t.Fatal(err)
		}
		x.Obs, x.Mask, x.Actions = append(x.Obs, b.Obs...), append(x.Mask, b.Mask...), append(x.Actions, actions...)
		for i := range n {
			x.None = append(x.None, !w.Decides(i))
		}
		var err error
		if b, err = policies.Step(ctx); err != nil {
			t.Fatal(err)
		}
		x.Reward, x.Terminated = append(x.Reward, b.Reward...), append(x.Terminated, b.Terminated...)
		x.Truncated, x.Invalid = append(x.Truncated, b.Truncated...), append(x.Invalid, b.Invalid...)
		for i := range n {
			if !b.Done(i) {
				continue
			}
			obs, info := b.Obs, b.Info
			if w.Autoreset() == envs.SameStep {
				obs, info = b.FinalObs, b.FinalInfo
			}
			k, c := len(obs)/n, len(info)/n
			o.At, o.Idx = append(o.At, int32(step+1)), append(o.Idx, int32(i))
			o.Return, o.Length = append(o.Return, b.EpisodeReturn[i]), append(o.Length, b.EpisodeLength[i])
			o.Last, o.Info = append(o.Last, obs[i*k:(i+1)*k]...), append(o.Info, info[i*c:(i+1)*c]...)
		}
	}
	if !slices.Contains(x.Mask, false) {
		x.Mask = nil
	}
	return b, o
}

// A rollout is the same as its steps one by one, bit for bit, and play continues alike after it.
func TestRollout(t *testing.T) {
	s := hosttest.Start(t)
	seed := uint64(9)
	for _, tc := range []struct {
		id, baseline string
		kwargs       map[string]any
	}{
		{"classic/CartPole-v1", envs.RandomName, nil},
		{"k8s/GangWindow-v0", "static_9", map[string]any{"steps": 12, "noise": 1.0}},
		{"k8s/GPUPodScheduling-v0", "FGD", nil},
		{"k8s/VerticalPodAutoscaler-v0", "upstream", map[string]any{"steps": 30}},
	} {
		for _, mode := range modes[:2] {
			t.Run(fmt.Sprintf("%s/%v", tc.id, mode), func(t *testing.T) {
				const n = 3
				w := local(t, tc.id, n, envs.VecOptions{Options: tc.kwargs, Autoreset: mode})
				v := dial(t, s.Unix, tc.id, n, client.Options{Options: tc.kwargs, Autoreset: mode})
				for _, x := range []spacedVec{v, w} {
					if _, err := x.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
						t.Fatal(err)
					}
				}
				policies, err := envs.NewPolicies(w, tc.baseline, 4)
				if err != nil {
					t.Fatal(err)
				}
				b := v.Baseline(tc.baseline, 4)
				for range 2 {
					want, wantOut := stepwise(t, w, policies, 40)
					got, gotOut, err := b.Rollout(ctx, client.RolloutOptions{Steps: 40, Transitions: true})
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(wantOut, gotOut); diff != "" {
						t.Fatalf("rollout (-here +wire):\n%s", diff)
					}
					wantRows, gotRows := *want, *got
					for _, r := range []*envs.Batch{&wantRows, &gotRows} { // stale where nothing ended
						r.FinalObs, r.FinalMask, r.FinalInfo = nil, nil, nil
					}
					if diff := cmp.Diff(wantRows, gotRows); diff != "" {
						t.Fatalf("the last batch (-here +wire):\n%s", diff)
					}
				}
				if got, want := trajectory(t, v, envs.VecResetOptions{Mask: make([]bool, n)}, 0), trajectory(t, w, envs.VecResetOptions{Mask: make([]bool, n)}, 0); got != want {
					t.Errorf("after the rollout %s, here %s", got, want)
				}
				_, act := v.Spaces()
				actions := make([]float32, n*act.Size())
				for range 5 {
					if err := policies.Act(ctx, actions); err != nil {
						t.Fatal(err)
					}
					want, err := w.Step(ctx, actions)
					if err != nil {
						t.Fatal(err)
					}
					got, err := v.Step(ctx, actions)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got.EpisodeReturn, want.EpisodeReturn) || !slices.Equal(got.EpisodeLength, want.EpisodeLength) || !slices.Equal(got.Obs, want.Obs) {
						t.Fatalf("after the rollout: returns %v, lengths %v; want %v, %v", got.EpisodeReturn, got.EpisodeLength, want.EpisodeReturn, want.EpisodeLength)
					}
				}
			})
		}
	}
}

// Episodes are counted in each environment; in mode Disabled the first that ends stops all.
func TestRolloutOfEpisodes(t *testing.T) {
	s := hosttest.Start(t)
	for _, mode := range modes {
		v := dial(t, s.WS, "classic/CartPole-v1", 4, client.Options{Autoreset: mode})
		b := v.Baseline("lean", 0)
		if _, _, err := b.Rollout(ctx, client.RolloutOptions{Steps: 1}); !errors.Is(err, envs.ErrResetNeeded) {
			t.Errorf("%v: Rollout before Reset: %v, want ErrResetNeeded", mode, err)
		}
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
		last, out, err := b.Rollout(ctx, client.RolloutOptions{Episodes: 2})
		if err != nil {
			t.Fatal(err)
		}
		ended := make([]int, 4)
		for k, i := range out.Idx {
			ended[i]++
			if out.Return[k] != float64(out.Length[k]) { // each step of CartPole pays 1
				t.Errorf("%v: an episode of return %v and length %d", mode, out.Return[k], out.Length[k])
			}
		}
		if int(out.At[len(out.At)-1]) != out.Steps {
			t.Errorf("%v: %d steps, the last end at %v", mode, out.Steps, out.At)
		}
		if mode != envs.Disabled {
			if out.Cut || slices.Min(ended) != 2 {
				t.Errorf("%v: %v episodes ended, cut %v; want 2 of each environment at least", mode, ended, out.Cut)
			}
			continue
		}
		if !out.Cut || slices.Max(ended) != 1 {
			t.Errorf("%v: %v episodes ended, cut %v; want a stop at the first", mode, ended, out.Cut)
		}
		if _, _, err := b.Rollout(ctx, client.RolloutOptions{Steps: 1}); !errors.Is(err, envs.ErrResetNeeded) {
			t.Errorf("%v: Rollout after an episode's end: %v, want ErrResetNeeded", mode, err)
		}
		if _, err := v.Step(ctx, make([]float32, 4)); !errors.Is(err, envs.ErrResetNeeded) {
			t.Errorf("%v: Step after an episode's end: %v, want ErrResetNeeded", mode, err)
		}
		if _, err := v.Reset(ctx, envs.VecResetOptions{Mask: done(last)}); err != nil {
			t.Errorf("%v: Reset of what has ended: %v", mode, err)
		}
	}
}

func TestRolloutLimits(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.Limits.Rollout, c.Limits.MsgOut = 1000, 1<<15 })
	v := dial(t, s.WS, "classic/CartPole-v1", 10, client.Options{Autoreset: envs.SameStep})
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	b := v.Baseline("lean", 0)
	for name, opts := range map[string]client.RolloutOptions{
		"too many steps":       {Steps: 101},
		"too many transitions": {Steps: 100, Transitions: true},
	} {
		if _, _, err := b.Rollout(ctx, opts); !errors.Is(err, client.ErrBusy) {
			t.Errorf("%s: %v, want ErrBusy", name, err)
		}
	}
	for name, opts := range map[string]client.RolloutOptions{"neither": {}, "both": {Steps: 1, Episodes: 1}, "negative": {Steps: -1}} {
		var refused *client.Error
		if _, _, err := b.Rollout(ctx, opts); !errors.As(err, &refused) || refused.Reason != wire.BadField {
			t.Errorf("%s: %v, want BAD_FIELD", name, err)
		}
	}
	for name, tc := range map[string]struct {
		opts client.RolloutOptions
		most int
		cut  bool
	}{
		"all steps":              {client.RolloutOptions{Steps: 100}, 100, false},
		"too many episodes":      {client.RolloutOptions{Episodes: 1000}, 100, true},
		"too many with an array": {client.RolloutOptions{Episodes: 1000, Transitions: true}, 90, true},
	} {
		_, out, err := b.Rollout(ctx, tc.opts)
		if err != nil || out.Cut != tc.cut || out.Steps > tc.most || out.Steps < tc.most/3 {
			t.Errorf("%s: %+v, %v; want cut %v after at most %d steps", name, out, err, tc.cut, tc.most)
		}
	}
}
