// Package team lets several goroutines share a job of many short parts, such as the rows of a minibatch.
//
// A job of a training takes some microseconds to some milliseconds, and the next one follows at once. A
// goroutine that sleeps takes as long to wake. The helpers of a [Team] therefore look for further jobs until
// [Team.Rest], or a while without one, ends them. The next job starts them again: nothing has to be closed. A
// training whose environments step on its team too says [Team.Stay], so that helpers wait through a whole step.
//
// Which worker computes which part differs from run to run. Jobs whose parts write different memory give
// the same results with any number of workers.
package team

import (
	"runtime"
	"sync/atomic"
)

const (
	// spinning is the number of rounds that a helper waits for a job: some 50 µs. Longer ones are no faster on an
	// idle machine, and slower on a busy one.
	spinning = 8
	// looks is the number of times that a round looks before it lets other goroutines run. That takes the lock of
	// Go's scheduler, for which many helpers would queue.
	looks = 512
	// line is the size of the blocks of memory that processors hand to each other.
	line = 64
)

// A Team is a caller and its helpers. Nil is a team without helpers. A Team serves one caller at a time, and a
// part of a job must not give it another job.
type Team struct {
	helpers  []*helper
	active   atomic.Int64 // helpers that may take parts
	stay     bool
	resting  atomic.Bool // helpers shall end
	finished chan struct{}
	panicked atomic.Pointer[any] // of a part

	job   func(worker, part int)
	parts int64
	_     [line]byte // helpers look at the next two all the time
	// untaken counts the parts that nobody has begun, and opens a job: job and parts stay as they are until
	// unfinished, the number of parts that have not returned, is 0.
	untaken    atomic.Int64
	lanes      atomic.Uint64 // likewise, the lanes that nobody has begun: bit i is lane i
	_          [line]byte    // the caller looks at the next two
	unfinished atomic.Int64
	waiting    atomic.Bool // the caller sleeps until finished
	_          [line]byte
}

// A helper is a goroutine that comes and goes.
type helper struct {
	alive atomic.Bool
	start func() // stored, so that starting the goroutine allocates nothing
}

// New returns a team of one worker, the caller.
func New() *Team { return &Team{finished: make(chan struct{}, 1)} }

// SetWorkers sets the number of workers, the caller among them. Less than one counts as one.
func (t *Team) SetWorkers(workers int) {
	for i := len(t.helpers) + 1; i < workers; i++ {
		h := &helper{}
		h.start = func() { t.help(h, i) }
		t.helpers = append(t.helpers, h)
	}
	t.active.Store(int64(max(workers, 1) - 1))
}

// Workers returns the number of workers.
func (t *Team) Workers() int {
	if t == nil {
		return 1
	}
	return int(t.active.Load()) + 1
}

// Do calls f for the parts from 0 to parts-1 and returns when all calls have. Parts are begun in this order.
// No two calls at one time have the same worker, a number below Workers. Do panics with the first value that a
// part panics with. It allocates nothing.
func (t *Team) Do(parts int, f func(worker, part int)) {
	helpers := min(t.Workers(), parts) - 1
	if helpers < 1 {
		for part := range parts {
			f(0, part)
		}
		return
	}
	t.job, t.parts = f, int64(parts)
	t.unfinished.Store(int64(parts))
	t.untaken.Store(int64(parts))
	t.wake(helpers)
	t.finish(t.takeAll(0))
	t.wait()
}

// Lanes is Do for Workers parts at most, of which worker i computes part i each time, so that the memory of a
// part stays in the caches of one processor. The caller computes those that no helper has begun when it has
// ended its own.
func (t *Team) Lanes(lanes int, f func(worker, lane int)) {
	if lanes < 2 || lanes > min(t.Workers(), maxLanes) {
		t.Do(lanes, f)
		return
	}
	t.job = f
	t.unfinished.Store(int64(lanes))
	t.lanes.Store(1<<lanes - 1)
	t.wake(lanes - 1)
	computed := 0
	for lane := range lanes {
		if t.takeLane(0, lane) {
			computed++
		}
	}
	t.finish(computed)
	t.wait()
}

// maxLanes is the number of bits of Team.lanes, less one that Lanes needs.
const maxLanes = 63

// wake starts the first helpers that are not looking for work.
func (t *Team) wake(helpers int) {
	t.resting.Store(false)
	for _, h := range t.helpers[:helpers] {
		if !h.alive.Load() {
			h.alive.Store(true)
			go h.start()
		}
	}
}

// takeLane computes a lane if nobody has begun it.
func (t *Team) takeLane(worker, lane int) bool {
	for {
		open := t.lanes.Load()
		if open&(1<<lane) == 0 {
			return false
		}
		if t.lanes.CompareAndSwap(open, open&^(1<<lane)) {
			t.compute(worker, lane)
			return true
		}
	}
}

// wait returns when all parts of the job have returned.
func (t *Team) wait() {
	t.await()
	t.job = nil
	if p := t.panicked.Swap(nil); p != nil {
		panic(*p)
	}
}

// Rest ends the helpers until the next job, so that other goroutines get their processors at once. After Stay it
// does nothing.
func (t *Team) Rest() {
	if t != nil && !t.stay {
		t.resting.Store(true)
	}
}

// Stay says that jobs follow each other all the time, so that helpers stay awake from one to the next.
func (t *Team) Stay() { t.stay = true }

// Stays reports whether helpers stay awake, so that small jobs are worth a hand-over.
func (t *Team) Stays() bool { return t != nil && t.stay }

// takeAll computes parts until none is left, and returns how many.
func (t *Team) takeAll(worker int) (computed int) {
	for {
		n := t.untaken.Load()
		if n == 0 {
			return computed
		}
		if t.untaken.CompareAndSwap(n, n-1) {
			t.compute(worker, int(t.parts-n))
			computed++
		}
	}
}

func (t *Team) compute(worker, part int) {
	defer func() {
		if p := recover(); p != nil {
			first := p // only a panic allocates
			t.panicked.CompareAndSwap(nil, &first)
		}
	}()
	t.job(worker, part)
}

// finish counts parts that have returned. The job may end with it.
func (t *Team) finish(parts int) {
	if parts > 0 && t.unfinished.Add(-int64(parts)) == 0 && t.waiting.CompareAndSwap(true, false) {
		t.finished <- struct{}{}
	}
}

// help takes parts until none has come for a while.
func (t *Team) help(h *helper, worker int) {
	defer h.alive.Store(false)
	for idle := 0; idle < spinning && !t.resting.Load(); idle++ {
		for range looks {
			if !t.open() || int64(worker) > t.active.Load() {
				Pause()
				continue
			}
			computed := t.takeAll(worker)
			if t.takeLane(worker, worker) {
				computed++
			}
			t.finish(computed)
			if computed > 0 {
				idle = 0
			}
		}
		runtime.Gosched()
	}
}

// open reports whether something is left to begin.
func (t *Team) open() bool { return t.untaken.Load() > 0 || t.lanes.Load() != 0 }

// await returns when unfinished is 0.
func (t *Team) await() {
	for range spinning {
		for range looks {
			if t.unfinished.Load() == 0 {
				return
			}
			Pause()
		}
		runtime.Gosched()
	}
	t.waiting.Store(true)
	if t.unfinished.Load() == 0 && t.waiting.CompareAndSwap(true, false) {
		return
	}
	<-t.finished
}

// Pause lets a goroutine that looks for a change wait for some tens of cycles. The instruction for that can
// make a virtual machine give up its processor.
func Pause() {
	for range 32 {
	}
}

// A Lender has a team that others may use while it does not.
type Lender interface{ Team() *Team }

// Of returns the team of x, or nil if x has none.
func Of(x any) *Team {
	if l, ok := x.(Lender); ok {
		return l.Team()
	}
	return nil
}

// Blocks returns the number of blocks of that size, the last of which may be smaller, that n elements fill.
func Blocks(n, size int) int { return (n + size - 1) / size }

// Block returns the elements of a block: those from lo up to but not including hi.
func Block(block, n, size int) (lo, hi int) { return block * size, min((block+1)*size, n) }
