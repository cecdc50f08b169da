package session

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/server/wire"
)

// TestCancelRequest: a running and a waiting request are cancelled by id, are answered each with CANCELLED, and the
// session continues.
func TestCancelRequest(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		{m{"t": "hello", "id": 1, "ver": []int{1, 4}}, m{"t": "welcome"}},
		{m{"t": "make", "id": 2, "env": "test/Trouble-v0"}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1, "seed": 1}, m{"t": "reset.ok"}},
	})
	running, waiting := &Request{Data: pack(t, m{"t": "step", "id": 4, "eid": 1, "a": 3})}, &Request{Data: pack(t, m{"t": "step", "id": 5, "eid": 1, "a": 0})}
	for _, r := range []*Request{running, waiting} {
		if b := s.Admit(r); b != nil {
			t.Fatalf("answered at arrival: %v", unpack(t, b))
		}
	}
	var first m
	var wg sync.WaitGroup
	wg.Go(func() { first = unpack(t, s.Do(t.Context(), running)) })
	for running := uint64(0); running != 4; time.Sleep(time.Millisecond) {
		s.open.mu.Lock()
		running = s.open.running
		s.open.mu.Unlock()
	}
	for _, tc := range []struct {
		id, of int
		found  bool
	}{{6, 5, true}, {7, 4, true}, {8, 3, false}, {9, 99, false}} {
		got := unpack(t, s.Admit(&Request{Data: pack(t, m{"t": "cancel", "id": tc.id, "of": tc.of})}))
		if got["t"] != "cancel.ok" || got["found"] != tc.found {
			t.Errorf("cancel of %d: %v, want found %v", tc.of, got, tc.found)
		}
	}
	wg.Wait()
	if first["reason"] != string(wire.WasCancelled) || norm(first["id"]) != int64(4) {
		t.Errorf("the running request: %v, want %s", first, wire.WasCancelled)
	}
	if got := unpack(t, s.Do(t.Context(), waiting)); got["reason"] != string(wire.WasCancelled) || norm(got["id"]) != int64(5) {
		t.Errorf("the waiting request: %v, want %s", got, wire.WasCancelled)
	}
	play(t, s, []line{
		{m{"t": "reset", "id": 10, "eid": 1, "seed": 1}, m{"t": "reset.ok"}},
		{m{"t": "step", "id": 11, "eid": 1, "a": 0}, m{"t": "step.ok"}},
		{m{"t": "cancel", "id": 12}, refused(12, wire.BadField)},
	})
}

// A session of 1.3 has no cancel; a server that stops still takes it.
func TestCancelOfVersions(t *testing.T) {
	old := newSession(t, newConfig())
	play(t, old, []line{
		{m{"t": "hello", "id": 1, "ver": []int{1, 3}}, m{"caps": []any{"baseline", "resume", "rollout", "snapshot"}}},
		{m{"t": "cancel", "id": 2, "of": 1}, refused(2, wire.IsReserved)},
	})
	cfg := newConfig()
	s := newSession(t, cfg)
	play(t, s, []line{{m{"t": "hello", "id": 1, "ver": []int{1, 4}}, m{"caps": []any{"baseline", "cancel", "resume", "rollout", "snapshot"}}}})
	cfg.Shared.Draining.Store(true)
	play(t, s, []line{{m{"t": "cancel", "id": 2, "of": 1}, m{"t": "cancel.ok", "found": false}}})
}

// deaf is an environment whose resets take 2.5 s and do not look at their context.
type deaf struct{ trouble }

func (deaf) Begin(context.Context, cluster.Cluster, *rand.Rand) error {
	time.Sleep(2500 * time.Millisecond)
	return nil
}

func init() {
	envs.Register(&envs.Spec{ID: "test/Deaf-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return deaf{}, nil }, nil
	}})
}

// TestResetDeadline: a reset that ends after its deadline is answered so.
func TestResetDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t, newConfig())
		s.cfg.Now = time.Now // the bubble's
		play(t, s, []line{
			helloLine,
			{m{"t": "make", "id": 2, "env": "test/Deaf-v0"}, m{"eid": 1}},
			{m{"t": "reset", "id": 3, "eid": 1, "dl": 200}, refused(3, wire.Deadline)},
			{m{"t": "reset", "id": 4, "eid": 1, "dl": 5000}, m{"t": "reset.ok"}},
		})
	})
}

// TestCancelledOften: a client that cancels a long request again and again takes no more memory with each.
func TestCancelledOften(t *testing.T) {
	var o openRequests
	o.admit(7)
	if _, err := o.begin(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if !o.cancel(7) {
			t.Fatal("the open request is not found")
		}
	}
	if n := len(o.cancelled); n != 1 {
		t.Errorf("%d ids are kept of one cancelled request, want 1", n)
	}
	o.end(7)
	if o.cancel(7) || len(o.cancelled) > 0 {
		t.Errorf("after its end the request is open, or kept: %v", o.cancelled)
	}
}
