package session

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// TestLive: what a session lists is what it has made and not closed, with the steps of all its environments, also while
// requests are carried out.
func TestLive(t *testing.T) {
	s := newSession(t, newConfig())
	over := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { // for the race detector
		for {
			select {
			case <-over:
				return
			default:
				s.Live()
			}
		}
	})
	play(t, s, []line{
		{m{"t": "hello", "id": 1, "ver": []int{1, 0}}, m{"t": "welcome"}},
		{m{"t": "make", "id": 2, "env": "classic/CartPole-v1", "n": 2}, m{"t": "make.ok"}},
		{m{"t": "make", "id": 3, "env": "test/Trouble-v0"}, m{"t": "make.ok"}},
		{m{"t": "reset", "id": 4, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "step", "id": 5, "eid": 1, "a": []int{0, 1}}, m{"t": "step.ok"}},
		{m{"t": "step", "id": 6, "eid": 1, "a": []int{0, 1}}, m{"t": "step.ok"}},
	})
	if diff := cmp.Diff([]Live{{1, "classic/CartPole-v1", 2, 4}, {2, "test/Trouble-v0", 1, 0}}, s.Live()); diff != "" {
		t.Errorf("two vectors, two steps of the first (-want +got):\n%s", diff)
	}
	play(t, s, []line{{m{"t": "close", "id": 7, "eid": 1}, m{"t": "close.ok"}}})
	if diff := cmp.Diff([]Live{{2, "test/Trouble-v0", 1, 0}}, s.Live()); diff != "" {
		t.Errorf("after the first was closed (-want +got):\n%s", diff)
	}
	close(over)
	watcher.Wait()
}

// TestWaiting: on one core, of three heavy requests that begin together, two wait.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Shared
		s.turns.cores = func() int { return 1 }
		hold := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				turn := newTurn(&s.turns)
				turn.begin(t.Context(), heavyLoad())
				<-hold
				turn.end()
			})
		}
		synctest.Wait()
		if got := s.Waiting(); got != 2 {
			t.Errorf("%d requests wait, want 2", got)
		}
		close(hold)
		wg.Wait()
		if got := s.Waiting(); got != 0 {
			t.Errorf("%d requests wait after the end, want 0", got)
		}
		s.turns.queue = []*ticket{{t: &turn{held: 1}}, {t: &turn{}}}
		if got := s.Waiting(); got != 1 {
			t.Errorf("%d requests wait where one of two computes on another core, want 1", got)
		}
	})
}
