package session

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lightFor is the longest time of a light request. Light requests never wait.
	lightFor = time.Millisecond
	// slice is the time after which a heavy request yields its core to a waiting one. If heavy requests use all cores,
	// a light one may wait about as long.
	slice = 10 * time.Millisecond
	// lightWindow is the time after a light request during which some cores are reserved for the next.
	lightWindow = 100 * time.Millisecond
)

// turns shares the cores among the heavy requests of a server's sessions, so that light ones, such as most steps, find
// a core soon. A heavy request computes while it holds a core of turns, for a slice at a time. While others wait, one
// session holds at most half the cores. After a light request a quarter of the cores, at least one, is kept free of
// heavy ones for lightWindow. The zero value is ready to use.
type turns struct {
	seen atomic.Pointer[turn] // whose light request was the first since the last look

	mu    sync.Mutex
	used  int
	queue []*ticket
	light time.Time // when a light request was last seen

	cores func() int       // nil: GOMAXPROCS
	now   func() time.Time // nil: time.Now
}

// ticket is a place in the queue for a core.
type ticket struct {
	t     *turn
	ready chan struct{} // closed with the grant
}

// total returns the number of cores.
func (g *turns) total() int {
	if g.cores != nil {
		return g.cores()
	}
	return runtime.GOMAXPROCS(0)
}

// room returns the number of cores that the heavy requests may hold, for a request of t; g.mu is locked.
func (g *turns) room(t *turn) int {
	now := time.Now
	if g.now != nil {
		now = g.now
	}
	if by := g.seen.Swap(nil); by != nil && by != t { // a session needs no protection from itself
		g.light = now()
	}
	n := g.total()
	if now().Sub(g.light) < lightWindow {
		n -= max(1, n/4)
	}
	return max(1, n)
}

// others reports whether another session than t's waits; g.mu is locked.
func (g *turns) others(t *turn) bool {
	return slices.ContainsFunc(g.queue, func(w *ticket) bool { return w.t != t })
}

// fits reports whether t may hold another core; g.mu is locked.
func (g *turns) fits(t *turn) bool {
	return g.used < g.room(t) && (t.held < max(1, g.total()/2) || !g.others(t))
}

// grant gives cores to those who wait, in the order of the queue; g.mu is locked.
func (g *turns) grant() {
	for i := 0; i < len(g.queue); {
		w := g.queue[i]
		if !g.fits(w.t) {
			i++
			continue
		}
		g.queue = slices.Delete(g.queue, i, i+1)
		g.used++
		w.t.held++
		w.t.waits--
		close(w.ready)
	}
}

// give returns n cores of t; g.mu is locked.
func (g *turns) give(t *turn, n int) {
	t.held -= n
	g.used -= n
	g.grant()
}

// A turn is a session's running request, as the context of its work. Its Err yields to other requests after a slice, so
// code that checks its context regularly shares the cores. Err is safe for concurrent use by the request's goroutines.
// One turn serves all requests of a session, one after another.
type turn struct {
	context.Context
	g    *turns
	load *load

	timer *time.Timer
	over  atomic.Bool // the slice, or the time of a light request
	late  atomic.Bool // the request is heavy
	taken atomic.Bool // the request held or awaited a core
	held  int         // cores; with waits guarded by g.mu
	waits int         // goroutines in the queue
}

func newTurn(g *turns) *turn {
	t := &turn{g: g}
	t.timer = time.AfterFunc(time.Hour, t.expire)
	t.timer.Stop()
	return t
}

// load predicts whether requests of a kind are heavy.
type load struct {
	known bool
	late  float32 // moving average of 1 for a heavy request, 0 for a light one
}

func (l *load) heavy() bool { return l.known && l.late > 0.5 }

func (l *load) add(late bool) {
	x := float32(0)
	if late {
		x = 1
	}
	if !l.known {
		l.known, l.late = true, x
		return
	}
	l.late += (x - l.late) / 8
}

// begin starts a request of the kind that l describes. If that is heavy, it waits for a core or the end of ctx. The
// caller must call end.
func (t *turn) begin(ctx context.Context, l *load) context.Context {
	t.Context, t.load = ctx, l
	t.over.Store(false)
	t.late.Store(false)
	t.taken.Store(false)
	if l.heavy() {
		t.await()
	}
	t.timer.Reset(lightFor)
	return t
}

// end returns the cores of the request, and records whether it was heavy. A nil turn does nothing.
func (t *turn) end() {
	if t == nil {
		return
	}
	if t.timer.Stop() && !t.late.Load() {
		if t.load.known && t.g.seen.Load() == nil {
			t.g.seen.Store(t)
		}
		t.load.add(false)
	} else {
		t.load.add(true)
	}
	if t.taken.Load() {
		t.g.mu.Lock()
		t.g.give(t, t.held)
		t.g.mu.Unlock()
	}
}

// expire is called when the request has computed for lightFor, and for each slice after that.
func (t *turn) expire() {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	if !t.late.Swap(true) && t.held > 0 {
		t.timer.Reset(slice)
		return
	}
	t.over.Store(true)
	if t.waits > 0 && t.held > 0 { // those who hold may wait for a goroutine in the queue, or have ended
		t.g.give(t, 1)
	}
}

// Err implements [context.Context]. It may wait for a core.
func (t *turn) Err() error {
	if t.over.Load() {
		t.await()
	}
	return t.Context.Err()
}

// await yields to other requests, and returns with a core or when the context has ended.
func (t *turn) await() {
	g := t.g
	t.taken.Store(true)
	g.mu.Lock()
	if t.held > 0 {
		t.held--
		g.used--
	}
	w := &ticket{t: t, ready: make(chan struct{})}
	t.waits++
	g.queue = append(g.queue, w)
	g.grant()
	if t.held > 0 {
		t.timer.Reset(slice) // so that expire finds cores that no goroutine uses
	}
	g.mu.Unlock()
	select {
	case <-w.ready:
		t.over.Store(false)
		t.timer.Reset(slice)
		return
	case <-t.Context.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, w); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
		t.waits--
	}
}

// Workers implements [envs.Sharer].
func (t *turn) Workers(most int) int {
	if t.load.known && !t.load.heavy() && !t.late.Load() {
		return most
	}
	g := t.g
	t.taken.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	for t.held < most && g.fits(t) && len(g.queue) == 0 {
		t.held++
		g.used++
	}
	if share := max(1, g.total()/2); t.held > share && g.others(t) {
		g.give(t, t.held-share)
	}
	return max(1, min(most, t.held))
}
