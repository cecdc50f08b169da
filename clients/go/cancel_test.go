package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// TestCancel: a context, or the time for a reply, that ends while a rollout of minutes runs ends the rollout at the server,
// and the connection is used on. Trajectories from the next reset are those of a local vector.
func TestCancel(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.Limits.Rollout = 1 << 40 })
	for name, url := range map[string]string{"websocket": s.WS, "unix": s.Unix} {
		for _, by := range []string{"context", "timeout"} {
			t.Run(name+" "+by, func(t *testing.T) {
				opts := client.Options{Reconnect: -1, Autoreset: envs.SameStep}
				if by == "timeout" {
					opts.Timeout = 3 * time.Second // also of the short requests, on a busy machine
				}
				v := dial(t, url, "classic/CartPole-v1", 4, opts)
				seed := uint64(5)
				if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
					t.Fatal(err)
				}
				limited, want := context.Background(), context.DeadlineExceeded
				if by == "context" {
					c, cancel := context.WithCancel(ctx)
					time.AfterFunc(100*time.Millisecond, cancel)
					limited, want = c, context.Canceled
				}
				_, _, err := v.Baseline("random", 1).Rollout(limited, client.RolloutOptions{Steps: 60_000_000})
				if !errors.Is(err, want) || errors.Is(err, client.ErrConnection) {
					t.Fatalf("the rollout: %v, want %v and no loss of the connection", err, want)
				}
				if _, err := v.Step(ctx, make([]float32, 4)); !errors.Is(err, envs.ErrResetNeeded) {
					t.Errorf("Step: %v, want ErrResetNeeded", err)
				}
				opt := envs.VecResetOptions{Seed: &seed}
				got := trajectory(t, v, opt, 50)
				if want := trajectory(t, local(t, "classic/CartPole-v1", 4, envs.VecOptions{Autoreset: envs.SameStep}), opt, 50); got != want {
					t.Error("the trajectory after a cancelled rollout differs from a local one")
				}
			})
		}
	}
}

// A context that has ended sends nothing, and costs nothing.
func TestEndedContext(t *testing.T) {
	s := hosttest.Start(t)
	v := dial(t, s.WS, "classic/CartPole-v1", 1, client.Options{})
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := v.Step(ended, []float32{0}); !errors.Is(err, context.Canceled) {
		t.Errorf("Step with an ended context: %v, want Canceled", err)
	}
	if _, err := v.Step(ctx, []float32{0}); err != nil {
		t.Errorf("Step afterwards: %v", err)
	}
}

// A server that knows no cancel, or does not answer it, costs the connection: the next frame could be the answer to another request.
func TestContextEndsConnection(t *testing.T) {
	for name, minor := range map[string]int{"no cancel": 3, "no answer": 4} {
		t.Run(name, func(t *testing.T) {
			var cancels atomic.Int64
			limited, cancel := context.WithCancel(ctx)
			defer cancel()
			url := serve(t, replies{
				wire.TypeHello: func(w *wire.Writer, id uint64) {
					_ = w.Encode(&wire.Welcome{T: wire.TypeWelcome, ID: id, Ver: []int{1, minor}, Caps: wire.Caps(minor), Limits: wire.DefaultLimits()})
				},
				wire.TypeStep:   func(*wire.Writer, uint64) { cancel() }, // and no reply
				wire.TypeCancel: func(*wire.Writer, uint64) { cancels.Add(1) },
			})
			v, err := client.Dial(ctx, url, "test/Two-v0", 2, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Step(limited, []float32{0, 1}); !errors.Is(err, client.ErrConnection) || !errors.Is(err, context.Canceled) {
				t.Errorf("Step: %v, want ErrConnection and Canceled", err)
			}
			if _, err := v.Reset(ctx, envs.VecResetOptions{}); !errors.Is(err, client.ErrConnection) {
				t.Errorf("Reset afterwards: %v, want ErrConnection", err)
			}
			if got, want := cancels.Load(), int64(minor-3); got != want {
				t.Errorf("%d requests to cancel, want %d", got, want)
			}
		})
	}
}
