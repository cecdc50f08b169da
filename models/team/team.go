// Package team lets several goroutines share a job of many short parts, such as the rows of a minibatch.
//
// In training, a job takes microseconds to milliseconds, and the next one follows at once. Waking a sleeping goroutine
// would take as long. So the helpers of a [Team] spin for further jobs until [Team.Rest], or a while without jobs, ends
// them. The next job starts them again, so a Team needs no Close. A training whose environments also step on its team
// calls [Team.Stay], so that helpers keep spinning.
//
// The assignment of parts to workers varies. Jobs whose parts write different memory give the same results with any
// number of workers.
package team

import (
	"runtime"
	"sync/atomic"
)

const (
	// spinning is the number of rounds that a helper waits for a job: about 50 µs. More rounds are no faster on an idle
	// machine, and slower on a busy one.
	spinning = 8
	// looks is the number of checks in a round, after which other goroutines may run. Yielding takes the lock of Go's
	// scheduler, for which many helpers would contend.
	looks = 512
	// line is the size of a cache line.
	line = 64
)

// A Team is a caller and its helpers. Nil is a team without helpers. A Team serves one caller at a time, and parts of a
// job must not call it.
type Team struct {
	helpers  []*helper
	active   atomic.Int64 // helpers that may take parts
	stay     bool
	resting  atomic.Bool // helpers should end
	finished chan struct{}
	panicked atomic.Pointer[any] // value of a panic in a part

	job   func(worker, part int)
	parts int64
	_     [line]byte // helpers poll the next two fields
	// untaken counts the parts not started. Setting it opens a job: job and parts do not change until unfinished, the
	// number of parts that have not returned, is 0.
	untaken    atomic.Int64
	lanes      atomic.Uint64 // lanes not started, likewise: bit i is lane i
	_          [line]byte    // the caller polls the next two fields
	unfinished atomic.Int64
	waiting    atomic.Bool // the caller sleeps until finished
	_          [line]byte
}

// A helper is a goroutine that is started and ends as needed.
type helper struct {
	alive atomic.Bool
	start func() // stored, so that starting the goroutine allocates nothing
}

// New returns a team of one worker, the caller.
func New() *Team { return &Team{finished: make(chan struct{}, 1)} }

// SetWorkers sets the number of workers, including the caller. Less than one counts as one.
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

// Do calls f for the parts from 0 to parts-1 and returns when all calls have returned. Parts start in this order.
// Concurrent calls have different workers, numbers below Workers. If a part panics, so does Do, with the first such
// value. Do allocates nothing.
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

// Lanes is Do for at most Workers parts. Worker i computes part i in every job, so that its memory stays in the caches
// of one processor. After its own part, the caller computes those that no helper has started.
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

// maxLanes is the number of bits of Team.lanes less one, so that 1<<lanes does not overflow.
const maxLanes = 63

// wake starts those of the first helpers that have ended.
func (t *Team) wake(helpers int) {
	t.resting.Store(false)
	for _, h := range t.helpers[:helpers] {
		if !h.alive.Load() {
			h.alive.Store(true)
			go h.start()
		}
	}
}

// takeLane computes a lane unless it has been started.
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

// Rest ends the helpers until the next job, which frees their processors for other goroutines. After Stay it does
// nothing.
func (t *Team) Rest() {
	if t != nil && !t.stay {
		t.resting.Store(true)
	}
}

// Stay declares that jobs follow each other continually: helpers stay awake between them.
func (t *Team) Stay() { t.stay = true }

// Stays reports whether helpers stay awake, so that sharing pays for smaller jobs.
func (t *Team) Stays() bool { return t != nil && t.stay }

// takeAll computes parts until none is left, and returns their number.
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

// finish subtracts parts that have returned, which may end the job.
func (t *Team) finish(parts int) {
	if parts > 0 && t.unfinished.Add(-int64(parts)) == 0 && t.waiting.CompareAndSwap(true, false) {
		t.finished <- struct{}{}
	}
}

// help computes parts until there have been none for a while.
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

// open reports whether any part or lane has not been started.
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

// Pause waits for some tens of cycles in a spin loop. The PAUSE instruction could make a virtual machine yield its
// processor.
func Pause() {
	for range 32 {
	}
}

// A Lender has a team that others may use while the Lender does not.
type Lender interface{ Team() *Team }

// Of returns the team of x, or nil if x has none.
func Of(x any) *Team {
	if l, ok := x.(Lender); ok {
		return l.Team()
	}
	return nil
}

// Blocks returns the number of blocks of the given size for n elements; the last may be smaller.
func Blocks(n, size int) int { return (n + size - 1) / size }

// Block returns the range [lo, hi) of the elements of a block.
func Block(block, n, size int) (lo, hi int) { return block * size, min((block+1)*size, n) }
