package client_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// along takes steps, at random or the recorded ones, and returns the actions and a hash of all
// that is seen.
func along(t *testing.T, v *client.VecEnv, b *envs.Batch, recorded [][]float32, steps int) (actions [][]float32, hash string) {
	t.Helper()
	h := sha256.New()
	_, act := v.Spaces()
	n, k, m := v.NumEnvs(), act.Size(), space.MaskSize(act)
	rng := rand.New(rand.NewPCG(5, 6))
	for step := range steps {
		a := make([]float32, n*k)
		if recorded != nil {
			a = recorded[step]
		} else {
			for i := range n {
				act.Sample(rng, b.Mask[i*m:(i+1)*m], a[i*k:(i+1)*k])
			}
		}
		actions = append(actions, a)
		var err error
		if b, err = v.Step(ctx, a); err != nil {
			t.Fatalf("Step: %v", err)
		}
		for _, x := range []any{b.Obs, b.Mask, b.Reward, b.Terminated, b.Truncated, b.Invalid, b.Info, b.EpisodeReturn, b.EpisodeLength} {
			if err := binary.Write(h, binary.LittleEndian, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	return actions, fmt.Sprintf("%x", h.Sum(nil))
}

// For each environment of the server that has copies: play, snapshot, play on, restore, play
// the same actions again, and see the same bytes.
func TestSnapshots(t *testing.T) {
	s := hosttest.Start(t)
	seed := uint64(21)
	for _, spec := range envs.Specs() {
		for _, mode := range modes[:2] {
			t.Run(fmt.Sprintf("%s/%v", spec.ID, mode), func(t *testing.T) {
				v := dial(t, s.Unix, spec.ID, 3, client.Options{Autoreset: mode, MaxEpisodeSteps: 15})
				b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
				if err != nil {
					t.Fatal(err)
				}
				along(t, v, b, nil, 8)
				snap, err := v.Snapshot(ctx)
				if err != nil {
					t.Fatalf("Snapshot: %v", err)
				}
				actions, want := along(t, v, b, nil, 25)
				for range 2 {
					if b, err = snap.Restore(ctx); err != nil {
						t.Fatalf("Restore: %v", err)
					}
					if b.EpisodeLength[0] != 8 {
						t.Errorf("episode lengths %v after Restore, want 8", b.EpisodeLength)
					}
					if _, got := along(t, v, b, actions, 25); got != want {
						t.Errorf("after Restore %s, before %s", got, want)
					}
				}
				if b, err = v.Fork(ctx, 1, []int{0, 2}); err != nil {
					t.Fatalf("Fork: %v", err)
				}
				for range 20 {
					_, act := v.Spaces()
					k, m := act.Size(), space.MaskSize(act)
					a := make([]float32, 3*k)
					act.Sample(rand.New(rand.NewPCG(7, uint64(b.EpisodeLength[0]))), b.Mask[:m], a[:k])
					copy(a[k:2*k], a[:k])
					copy(a[2*k:], a[:k])
					if b, err = v.Step(ctx, a); err != nil {
						t.Fatal(err)
					}
					size := len(b.Obs) / 3
					if !slices.Equal(b.Obs[:size], b.Obs[size:2*size]) || !slices.Equal(b.Obs[:size], b.Obs[2*size:]) ||
						b.EpisodeReturn[0] != b.EpisodeReturn[1] || b.EpisodeReturn[0] != b.EpisodeReturn[2] {
						t.Fatalf("forked rows differ: returns %v", b.EpisodeReturn)
					}
				}
				if err := snap.Forget(ctx); err != nil {
					t.Errorf("Forget: %v", err)
				}
				if _, err := snap.Restore(ctx); !errors.Is(err, client.ErrUnknownSnapshot) {
					t.Errorf("Restore of what is forgotten: %v, want ErrUnknownSnapshot", err)
				}
			})
		}
	}
}

// What the client knows of rows comes back, too: in mode Disabled a row that had ended needs a
// reset again.
func TestRestoreOfAnEnd(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.Limits.Snapshots = 4 })
	v := dial(t, s.WS, "classic/CartPole-v1", 2, client.Options{Autoreset: envs.Disabled, MaxEpisodeSteps: 3})
	before, err := v.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := v.Step(ctx, make([]float32, 2)); err != nil {
			t.Fatal(err)
		}
	}
	end, err := v.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Snapshot(ctx); !errors.Is(err, client.ErrBusy) {
		t.Errorf("a third snapshot: %v, want ErrBusy", err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, err := end.Restore(ctx); err != nil || !b.Truncated[0] || b.EpisodeReturn[1] != 3 {
		t.Errorf("Restore = %+v, %v; want the episode's end with returns of 3", b, err)
	}
	if _, err := v.Step(ctx, make([]float32, 2)); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Step after an end: %v, want ErrResetNeeded", err)
	}
	if _, err := before.Restore(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Step(ctx, make([]float32, 2)); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Step before any reset: %v, want ErrResetNeeded", err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Errorf("Reset: %v", err)
	}
	for _, bad := range []struct {
		from int
		to   []int
	}{{2, []int{0}}, {-1, []int{0}}, {0, []int{2}}, {0, nil}} {
		if _, err := v.Fork(ctx, bad.from, bad.to); err == nil {
			t.Errorf("Fork(%d, %v) gives no error", bad.from, bad.to)
		}
	}
}
