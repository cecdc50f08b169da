package session

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// heavyLoad and lightLoad are kinds of requests that are known to take long, and not to.
func heavyLoad() *load { return &load{known: true, late: 1} }
func lightLoad() *load { return &load{known: true} }

// inUse returns the cores that are held.
func (g *turns) inUse() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// work computes for d in the bubble's time, and looks at its context every millisecond, as environments do.
func work(ctx context.Context, d time.Duration, each func()) {
	for range d / time.Millisecond {
		time.Sleep(time.Millisecond)
		if ctx.Err() != nil {
			return
		}
		each()
	}
}

// On one core two heavy requests alternate by slices of 10 ms, after the first, which begins with the millisecond in
// which it could have been a light one.
func TestHeavyRequestsAlternate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &turns{cores: func() int { return 1 }}
		var order strings.Builder
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			wg.Go(func() {
				turn := newTurn(g)
				ctx := turn.begin(t.Context(), heavyLoad())
				work(ctx, 30*time.Millisecond, func() { order.WriteString(name) })
				turn.end()
			})
			synctest.Wait()
		}
		wg.Wait()
		blocks := 1
		for i := 1; i < order.Len(); i++ {
			if order.String()[i] != order.String()[i-1] {
				blocks++
			}
		}
		if blocks < 5 || blocks > 6 { // 30 ms each by slices of 10 or 11 ms
			t.Errorf("the requests computed in the order %s, want slices of 10 ms in turn", &order)
		}
		if g.used != 0 || len(g.queue) != 0 {
			t.Errorf("%d cores held and %d waiting at the end, want none", g.used, len(g.queue))
		}
	})
}

// A light request waits for nobody, however many heavy ones there are, and keeps a core of two free for the next.
func TestLightRequestsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &turns{cores: func() int { return 2 }}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				turn := newTurn(g)
				ctx := turn.begin(t.Context(), heavyLoad())
				work(ctx, 20*time.Millisecond, func() {})
				turn.end()
			})
		}
		synctest.Wait()
		if got := g.inUse(); got != 2 {
			t.Errorf("%d cores are held before any light request, want both", got)
		}
		light := newTurn(g)
		for range 100 {
			begin := time.Now()
			ctx := light.begin(t.Context(), lightLoad())
			if ctx.Err() != nil || time.Since(begin) != 0 {
				t.Fatalf("a light request waits for %v", time.Since(begin))
			}
			light.end()
			time.Sleep(time.Millisecond)
		}
		if got := g.inUse(); got != 1 {
			t.Errorf("%d cores are held beside light requests, want one of two", got)
		}
		wg.Wait()
	})
}

// While others wait, a session holds half the cores at most, and all of them when nobody waits.
func TestShareOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &turns{cores: func() int { return 4 }}
		a := newTurn(g)
		a.begin(t.Context(), heavyLoad())
		if got := a.Workers(8); got != 4 {
			t.Errorf("alone %d goroutines compute, want all 4 cores", got)
		}
		var wg sync.WaitGroup
		others := []*turn{newTurn(g), newTurn(g), newTurn(g)}
		for _, b := range others {
			wg.Go(func() { b.begin(t.Context(), heavyLoad()) })
		}
		synctest.Wait()
		if got := a.Workers(8); got != 2 {
			t.Errorf("while others wait %d goroutines compute, want 2 of 4 cores", got)
		}
		synctest.Wait()
		held := []int{others[0].held, others[1].held, others[2].held}
		slices.Sort(held)
		if !slices.Equal(held, []int{0, 1, 1}) {
			t.Errorf("the others hold %v cores, want two of them one each", held)
		}
		a.end()
		wg.Wait()
		for _, b := range others {
			b.end()
		}
		if g.used != 0 {
			t.Errorf("%d cores are held at the end", g.used)
		}
	})
}

// A request whose context ends in the queue comes back at once and leaves the queue.
func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &turns{cores: func() int { return 1 }}
		a, b := newTurn(g), newTurn(g)
		a.begin(t.Context(), heavyLoad())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if err := b.begin(ctx, heavyLoad()).Err(); err != context.DeadlineExceeded || time.Since(begin) != time.Minute {
			t.Errorf("after %v: %v, want the deadline after a minute", time.Since(begin), err)
		}
		b.end()
		if len(g.queue) != 0 || b.held != 0 {
			t.Errorf("%d in the queue, %d cores held", len(g.queue), b.held)
		}
		a.end()
	})
}

// A request may hold a core that none of its goroutines uses any more, while another one of them is in the queue: the
// core passes to that one after a slice, even if the other session never makes way.
func TestCoreOfAGoroutineThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &turns{cores: func() int { return 2 }}
		a, b := newTurn(g), newTurn(g)
		ctx := a.begin(t.Context(), heavyLoad())
		a.Workers(2) // holds both, of which the one goroutine below uses one
		begin := time.Now()
		var took time.Duration
		var wg sync.WaitGroup
		wg.Go(func() {
			work(ctx, 100*time.Millisecond, func() {})
			took = time.Since(begin)
			a.end()
		})
		wg.Go(func() {
			b.begin(t.Context(), heavyLoad())
			time.Sleep(time.Second) // without a look at its context
			b.end()
		})
		wg.Wait()
		if took > 150*time.Millisecond { // 100 ms and the slices in the queue
			t.Errorf("100 ms of work take %v beside a core that the request holds and does not use", took)
		}
		if g.used != 0 {
			t.Errorf("%d cores are held at the end", g.used)
		}
	})
}

// Of two goroutines of a session in the queue, before one of another, the second lets that one pass: a session gets no
// more than half of two cores.
func TestQueueKeepsShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &turns{cores: func() int { return 2 }}
		x, y, a, b := newTurn(g), newTurn(g), newTurn(g), newTurn(g)
		x.begin(t.Context(), heavyLoad())
		y.begin(t.Context(), heavyLoad())
		a.begin(t.Context(), lightLoad())
		var wg sync.WaitGroup
		for _, turn := range []*turn{a, a} {
			wg.Go(turn.await)
			synctest.Wait()
		}
		wg.Go(func() { b.begin(t.Context(), heavyLoad()) })
		time.Sleep(2 * lightFor) // else the requests that end count as light
		x.end()
		y.end()
		synctest.Wait()
		g.mu.Lock()
		if a.held != 1 || b.held != 1 {
			t.Errorf("the sessions hold %d and %d cores, want one each", a.held, b.held)
		}
		g.mu.Unlock()
		b.end()
		wg.Wait()
		a.end()
	})
}

// A kind of request is heavy when most of its last requests were.
func TestLoad(t *testing.T) {
	var l load
	if l.heavy() {
		t.Error("an unknown kind is heavy")
	}
	l.add(true)
	if !l.heavy() {
		t.Error("not heavy after one heavy request and no other")
	}
	for range 6 { // (7/8)^6 = 0.449
		l.add(false)
	}
	if l.heavy() {
		t.Errorf("heavy after six light requests, average %v, want 0.449", l.late)
	}
	l.add(true) // 0.449 × 7/8 + 1/8 = 0.518
	if !l.heavy() {
		t.Errorf("not heavy at %v, want 0.518", l.late)
	}
}

// A request of an unknown kind begins at once and becomes a heavy one after a millisecond; the next of its kind waits
// from the beginning.
func TestUnknownBecomesHeavy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &turns{cores: func() int { return 1 }}
		var l load
		a := newTurn(g)
		ctx := a.begin(t.Context(), &l)
		if g.inUse() != 0 {
			t.Error("it holds a core at once")
		}
		work(ctx, 5*time.Millisecond, func() {})
		if g.inUse() != 1 {
			t.Error("it holds no core after 5 ms")
		}
		a.end()
		a.begin(t.Context(), &l)
		if g.inUse() != 1 {
			t.Error("the next holds no core at its begin")
		}
		a.end()
	})
}
