package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// cutNow cuts the connection of v as the network would.
func cutNow(t *testing.T, v *VecEnv) {
	t.Helper()
	if err := v.t.(*wsTransport).conn.NetConn().Close(); err != nil {
		t.Error(err)
	}
}

// TestResume: after each cut, before a request or between it and its reply, the batches are those of a local vector.
func TestResume(t *testing.T) {
	s := hosttest.Start(t)
	ctx := context.Background()
	v, err := Dial(ctx, s.WS, "classic/CartPole-v1", 2, Options{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	local, err := envs.Make("classic/CartPole-v1", 2, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	seed := uint64(3)
	if _, err := local.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
		t.Fatal(err)
	}
	for k := range 60 {
		actions := []float32{float32(k % 2), float32(k / 2 % 2)}
		want, err := local.Step(ctx, actions)
		if err != nil {
			t.Fatal(err)
		}
		if k%3 == 0 {
			cutNow(t, v)
		}
		if err := v.sendStep(ctx, actions); err != nil {
			t.Fatal(err)
		}
		if k%3 == 1 {
			cutNow(t, v)
		}
		if err := v.receiveStep(ctx); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(v.batch.Obs, want.Obs) || !slices.Equal(v.batch.Reward, want.Reward) {
			t.Fatalf("step %d: %v, want %v", k, v.batch.Obs, want.Obs)
		}
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(metrics(t, s.HTTP), "\nkubernasium_sessions 0\n"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a session is left")
		}
	}
}

// metrics returns the server's /metrics.
func metrics(t *testing.T, url string) string {
	t.Helper()
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReconnectEnds: without a server the client gives up in its time; with a negative time at once; and a reply that
// does not come in time ends the connection.
func TestReconnectEnds(t *testing.T) {
	for _, tc := range []struct {
		reconnect, atLeast, atMost time.Duration
	}{{-1, 0, 20 * time.Second}, {300 * time.Millisecond, 100 * time.Millisecond, 20 * time.Second}} {
		s := hosttest.Start(t, func(c *host.Config) { c.DrainFor = 10 * time.Millisecond })
		v, err := Dial(context.Background(), s.WS, "classic/CartPole-v1", 1, Options{Reconnect: tc.reconnect})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		seed := uint64(1)
		_, err = v.Reset(context.Background(), envs.VecResetOptions{Seed: &seed})
		if took := time.Since(begin); !errors.Is(err, ErrConnection) && !errors.Is(err, ErrUnavailable) || took < tc.atLeast || took > tc.atMost {
			t.Errorf("reconnect %v: %v after %v", tc.reconnect, err, took)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &session{w: wire.NewWriter(), timeout: 50 * time.Millisecond}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.use(&unixTransport{conn: conn, r: bufio.NewReader(conn)})
	if err := s.handshake(context.Background()); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrConnection) {
		t.Errorf("a server that is silent: %v, want the end of the time", err)
	}
}

// TestJournalIsBounded: beyond its bound a journal rebuilds nothing, and says so, until a reset of all.
func TestJournalIsBounded(t *testing.T) {
	frame := make([]byte, 1<<20)
	j := journal{}
	j.add(frame[:1], 1, wire.TypeMake+wire.OK)
	for id := range uint64(maxJournal >> 20) {
		j.add(frame, id+2, wire.TypeStep+wire.OK)
	}
	if !j.full || len(j.data) > 1 {
		t.Errorf("a journal of %d bytes is full: %v, want make alone", len(j.data), j.full)
	}
	if !strings.Contains(errJournal.Error(), "64 MiB") {
		t.Errorf("%v names no bound", errJournal)
	}
	if j.restart(); j.full || len(j.entries) != 1 {
		t.Errorf("after a reset of all a journal is full: %v, with %d entries, want make", j.full, len(j.entries))
	}
	j.drop()
	if j.restart(); !j.full {
		t.Error("a reset of all brings a dropped journal back")
	}
	k := journal{}
	k.add(frame[:1], 1, wire.TypeMake+wire.OK)
	k.add(frame[:2], 2, wire.TypeStep+wire.OK)
	k.add(frame[:2], 3, wire.TypeStats+wire.OK)
	if len(k.entries) != 2 {
		t.Errorf("%d entries, want make and step", len(k.entries))
	}
	k.restart()
	if len(k.entries) != 1 || len(k.data) != 1 {
		t.Errorf("%d entries of %d bytes after a reset of all, want make", len(k.entries), len(k.data))
	}
}

// TestStepByPolicyIsKept: a reset with seeds does not restart a random policy's stream, so the journal must keep the
// policy's earlier steps.
func TestStepByPolicyIsKept(t *testing.T) {
	ctx := context.Background()
	v, err := Dial(ctx, hosttest.Start(t).WS, "classic/CartPole-v1", 2, Options{})
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(3)
	reset := func() {
		if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
	}
	reset()
	if _, err := v.Step(ctx, []float32{0, 1}); err != nil {
		t.Fatal(err)
	}
	reset()
	if n := len(v.journal.entries); n != 2 {
		t.Errorf("%d requests after a step and a reset, want make and reset", n)
	}
	if _, err := v.Baseline(envs.RandomName, 1).Step(ctx); err != nil {
		t.Fatal(err)
	}
	reset()
	if n := len(v.journal.entries); n != 4 {
		t.Errorf("%d requests after a policy's step, want make, reset, step and reset", n)
	}
}

// TestResumeOfPendingSteps: steps that are pending outlive the connection.
func TestResumeOfPendingSteps(t *testing.T) {
	s := hosttest.Start(t)
	ctx := context.Background()
	v, err := Dial(ctx, s.WS, "classic/CartPole-v1", 3, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := v.Send(ctx, []int{2, 0}, []float32{0, 1}); err != nil {
			t.Fatal(err)
		}
		cutNow(t, v)
		rows, b, err := v.Recv(ctx, 2, 3)
		if err != nil || !slices.Equal(rows, []int{0, 2}) || !slices.Equal(b.Reward, []float64{1, 1}) {
			t.Fatalf("Recv after a cut: %v, %v, %v; want rows 0 and 2", rows, b, err)
		}
	}
}

// TestResetThatFails: after a reset with seeds that the server refuses, or that is not sent, the random streams are not
// those of these seeds. Another server then rebuilds no other episodes: the client has an error instead.
func TestResetThatFails(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	first, second := uint64(1), uint64(2)
	for name, reset := range map[string]func(v *VecEnv) error{
		"refused": func(v *VecEnv) error {
			_, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: &second, Options: map[string]any{"no such": 1}})
			return err
		},
		"not sent": func(v *VecEnv) error {
			_, err := v.Reset(ended, envs.VecResetOptions{Seed: &second})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			urls, kill := chain(t, 3)
			v, w := pair(t, urls, "classic/CartPole-v1", 2, envs.VecOptions{})
			if err := reset(v); err == nil {
				t.Fatal("the reset succeeds")
			}
			opts := envs.VecResetOptions{Seed: &first}
			for _, x := range []envs.VecEnv{v, w} { // the failure before it does not matter
				if _, err := x.Reset(t.Context(), opts); err != nil {
					t.Fatal(err)
				}
			}
			step := func() error {
				t.Helper()
				want, err := w.Step(t.Context(), []float32{0, 1})
				if err != nil {
					t.Fatal(err)
				}
				got, err := v.Step(t.Context(), []float32{0, 1})
				if err == nil && batchText(got) != batchText(want) {
					t.Errorf("got  %s\nwant %s", batchText(got), batchText(want))
				}
				return err
			}
			kill()
			if err := step(); err != nil {
				t.Fatal(err)
			}
			if err := reset(v); err == nil {
				t.Fatal("the reset succeeds")
			}
			for _, x := range []envs.VecEnv{v, w} { // continues the streams of the first seed
				if _, err := x.Reset(t.Context(), envs.VecResetOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			kill()
			if err := step(); !errors.Is(err, errJournal) {
				t.Errorf("Step at another server: %v, want errJournal", err)
			}
		})
	}
}
