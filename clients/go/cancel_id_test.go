package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// lateCancel cancels each request when its reply has arrived.
type lateCancel struct {
	transport
	s *session
}

func (t lateCancel) readFrame(buf []byte, limit int) ([]byte, error) {
	buf, err := t.transport.readFrame(buf, limit)
	t.s.watchdog.cancel(t.s, context.Canceled)
	return buf, err
}

// TestRebuildAfterLateCancel: a request whose reply came before its cancellation is rebuilt at another server.
func TestRebuildAfterLateCancel(t *testing.T) {
	urls, kill := chain(t, 2)
	v, w := pair(t, urls, "classic/CartPole-v1", 2, envs.VecOptions{})
	seed := uint64(4)
	for _, x := range []envs.VecEnv{v, w} {
		if _, err := x.Reset(t.Context(), envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
	}
	step := func() {
		t.Helper()
		want, err := w.Step(t.Context(), []float32{0, 1})
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Step(t.Context(), []float32{0, 1})
		if err != nil {
			t.Fatal(err)
		}
		if batchText(got) != batchText(want) {
			t.Errorf("got  %s\nwant %s", batchText(got), batchText(want))
		}
	}
	plain := v.t
	v.t = lateCancel{plain, &v.session}
	step()
	v.t = plain
	step()
	kill()
	step()
}

// TestCancelAfterReconnect: a request that is cancelled after it was sent over a second connection leaves the session
// usable.
func TestCancelAfterReconnect(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.Limits.Rollout = 1 << 40 })
	v, err := Dial(t.Context(), s.WS, "classic/CartPole-v1", 2, Options{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	seed := uint64(4)
	reset := func() {
		t.Helper()
		if _, err := v.Reset(t.Context(), envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
	}
	reset()
	cutNow(t, v)
	limited, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, _, err := v.Baseline(envs.RandomName, 1).Rollout(limited, RolloutOptions{Steps: 60_000_000}); !errors.Is(err, context.Canceled) {
		t.Fatalf("the rollout: %v, want Canceled", err)
	}
	reset()
}
