package all_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// An ending is a context that ends when it has been asked a number of times, by the goroutines of a call together.
type ending struct {
	context.Context
	left atomic.Int64
}

// Err implements [context.Context].
func (e *ending) Err() error {
	if e.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestCancelledAnywhere ends the context of a reset, of each baseline and of a step at the first, the second and every
// further place that asks for it: the call returns the context's error, and what follows is as if it had not been.
func TestCancelledAnywhere(t *testing.T) {
	for _, spec := range envstest.Own() {
		t.Run(spec.ID, func(t *testing.T) {
			v, err := envs.NewVec(spec, 2, envs.VecOptions{Shards: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			seed := uint64(1)
			var want []float32
			reset := func(ctx context.Context) error {
				b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
				if err != nil {
					return err
				}
				if want == nil {
					want = slices.Clone(b.Obs)
				}
				if !slices.Equal(b.Obs, want) {
					t.Errorf("a reset after one that was cancelled gives other observations")
				}
				return nil
			}
			cancelled(t, "reset", reset)
			_, act := v.Spaces()
			actions := make([]float32, 2*act.Size())
			for i := range spec.Baselines {
				p, err := envs.NewPolicies(v, spec.Baselines[i].Name, 0)
				if err != nil {
					continue // it does not play these options
				}
				cancelled(t, spec.Baselines[i].Name, func(ctx context.Context) error { return p.Act(ctx, actions) })
			}
			p, err := envs.NewPolicies(v, envs.RandomName, 0)
			if err != nil {
				t.Fatal(err)
			}
			cancelled(t, "step", func(ctx context.Context) error {
				if err := reset(t.Context()); err != nil {
					return err
				}
				_, err := p.Step(ctx)
				return err
			})
		})
	}
}

// cancelled calls f with contexts that end later each time, until it succeeds: after 1, 2, 3, 4, 6, 9, … looks at them.
func cancelled(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	for left := int64(0); left < 1e9; left += 1 + left/2 {
		ctx := &ending{Context: t.Context()}
		ctx.left.Store(left)
		err := f(ctx)
		if err == nil {
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled at look %d: %v, want %v", what, left+1, err, context.Canceled)
			return
		}
	}
	t.Errorf("%s does not succeed", what)
}
