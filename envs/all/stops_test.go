package all_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/tools/cputime"
)

// TestEverythingStops: with any option at an end of its range, and with all at the greatest, a reset, a step and
// each baseline return within 250 ms of the end of their context. What takes more memory than a server
// gives to a session is left out.
func TestEverythingStops(t *testing.T) {
	const memory = 64 << 20
	for _, spec := range envstest.Own() {
		t.Run(spec.ID, func(t *testing.T) {
			stops(t, spec, envstest.Extreme{Name: "default"})
			if testing.Short() {
				return
			}
			for _, x := range extremes(spec) {
				if estimate(t, spec, x.Options, 1) > memory { // half of what is too much, until it is not
					x = envstest.Shrink(spec, x, func(opts map[string]any) bool { return estimate(t, spec, opts, 1) <= memory })
				}
				stops(t, spec, x)
			}
		})
	}
}

// stops plays an environment with deadlines.
func stops(t *testing.T, spec *envs.Spec, x envstest.Extreme) {
	t.Helper()
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Options: x.Options})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	seed := uint64(1)
	reset := func(ctx context.Context) error {
		_, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
		return err
	}
	if !within(t, spec.ID+" reset", x, reset) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := reset(ctx); err != nil {
			return // an episode that nobody waits for, or that the cluster does not permit
		}
	}
	_, act := v.Spaces()
	actions := make([]float32, act.Size())
	for i := range spec.Baselines {
		name := spec.Baselines[i].Name
		p, err := envs.NewPolicies(v, name, 0)
		if err != nil {
			continue // it does not play these options
		}
		within(t, spec.ID+" "+name, x, func(ctx context.Context) error { return p.Act(ctx, actions) })
	}
	p, err := envs.NewPolicies(v, envs.RandomName, 0)
	if err != nil {
		t.Fatal(err)
	}
	within(t, spec.ID+" step", x, func(ctx context.Context) error {
		_, err := p.Step(ctx)
		return err
	})
}

// within calls f with a deadline and reports whether it met that. It tries a call that comes back late again:
// the time may be that of other programs.
func within(t *testing.T, what string, x envstest.Extreme, f func(ctx context.Context) error) bool {
	t.Helper()
	const deadline, late = 20 * time.Millisecond, 250 * time.Millisecond
	var took time.Duration
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		begin, cpu := time.Now(), cputime.Used()
		err := f(ctx)
		took = min(time.Since(begin), cputime.Used()-cpu)
		cancel()
		if took <= deadline+late {
			return !errors.Is(err, context.DeadlineExceeded)
		}
	}
	t.Errorf("%s with %s, %v: back after %v of a deadline of %v, want within %v of it", what, x.Name, x.Options, took, deadline, late)
	return false
}
