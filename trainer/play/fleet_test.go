package play

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// TestServersStandInForEachOther: of two servers that share a vector one goes, and the steps are those of this process.
func TestServersStandInForEachOther(t *testing.T) {
	ctx := context.Background()
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	fast := func(c *host.Config) { c.DrainFor = time.Millisecond }
	first, second := hosttest.Start(t, fast), hosttest.Start(t, fast)
	opts := envs.VecOptions{Autoreset: envs.SameStep}
	local, err := OpenEnvs(ctx, spec, 5, opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	remote, err := OpenEnvs(ctx, spec, 5, opts, []string{first.WS, second.WS})
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(1)
	for _, v := range []envs.VecEnv{local, remote} {
		if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
	}
	for k := range 40 {
		if k == 20 {
			if err := first.Shutdown(ctx); err != nil {
				t.Fatal(err)
			}
		}
		actions := []float32{0, 1, float32(k % 2), float32(k / 2 % 2), 1}
		want, err := local.Step(ctx, actions)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := remote.Step(ctx, actions); err != nil || !slices.Equal(got.Obs, want.Obs) {
			t.Fatalf("step %d: %v; want the observations of this process", k, err)
		}
	}
	for _, v := range []envs.VecEnv{local, remote} {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}
