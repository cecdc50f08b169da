package envs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

var (
	// ErrPending means that an environment's last step has not been received. Errors of [Async.Send] wrap it.
	ErrPending = errors.New("envs: a step is pending")
	// ErrNotSent is returned by [Async.Recv] if no step is pending.
	ErrNotSent = errors.New("envs: no step is pending")
)

// Async steps the environments of a [Vec] independently, each as soon as it has an action, so that a slow one does not
// delay the others. Each environment takes the same steps as in lock-step: its rows do not depend on the order in which
// environments finish. While steps are pending, the Vec must not be used otherwise. An Async is for one goroutine.
type Async struct {
	v     *Vec
	begin func() context.Context
	end   func()
	most  int // goroutines

	ctx     context.Context // of the pending steps
	actions []float32
	wake    chan struct{} // signals that a step has ended
	wg      sync.WaitGroup

	mu      sync.Mutex
	pending []bool // sent and not received
	queue   []int
	running int // goroutines
	open    int // steps that have not ended
	ready   []int
	errs    []error // of the last step of each environment
}

// NewAsync returns an Async for v. It calls begin when a step becomes pending and no other is, for the context of the
// steps, and end when the last pending step has ended. The two never run at the same time.
func NewAsync(v *Vec, begin func() context.Context, end func()) *Async {
	n := len(v.envs)
	most := min(n, max(len(v.work)+1, runtime.GOMAXPROCS(0)))
	if v.spec.Backend != nil { // such environments wait more than they compute
		most = n
	}
	return &Async{
		v: v, begin: begin, end: end, most: most, actions: make([]float32, n*v.nAct), wake: make(chan struct{}, 1),
		pending: make([]bool, n), errs: make([]error, n),
	}
}

// Pending returns the number of steps that were sent and not received.
func (a *Async) Pending() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open + len(a.ready)
}

// Send begins a step in each of rows: row k of actions is that of environment rows[k]. Errors are those of [Vec.Step],
// and [ErrPending]; then no step was begun.
func (a *Async) Send(rows []int, actions []float32) error {
	v, k := a.v, a.v.nAct
	if v.closed {
		return ErrClosed
	}
	if len(actions) != len(rows)*k {
		return fmt.Errorf("%w: %d numbers for %d environments, want %d", ErrInvalidAction, len(actions), len(rows), len(rows)*k)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.check(rows, actions); err != nil {
		return err
	}
	if a.open == 0 {
		a.ctx = a.begin()
	}
	for j, i := range rows {
		copy(a.actions[i*k:(i+1)*k], actions[j*k:(j+1)*k])
	}
	a.queue = append(a.queue, rows...)
	a.open += len(rows)
	for a.running < min(a.most, a.open) {
		a.running++
		a.wg.Go(a.work)
	}
	return nil
}

// check marks the rows as pending, unless one cannot be stepped; a.mu is locked.
func (a *Async) check(rows []int, actions []float32) (err error) {
	v, k := a.v, a.v.nAct
	for j, i := range rows {
		switch {
		case i < 0 || i >= len(v.envs):
			err = fmt.Errorf("%w: environment %d of %d", ErrInvalidAction, i, len(v.envs))
		case a.pending[i]:
			err = fmt.Errorf("environment %d: %w", i, ErrPending)
		case v.envs[i].ended && v.mode == NextStep:
		case !v.envs[i].running:
			err = fmt.Errorf("environment %d: %w", i, ErrResetNeeded)
		case !v.act.Contains(actions[j*k : (j+1)*k]):
			err = fmt.Errorf("environment %d: %w", i, invalidAction(v.act, actions[j*k:(j+1)*k]))
		}
		if err != nil {
			for _, i := range rows[:j] {
				a.pending[i] = false
			}
			return err
		}
		a.pending[i] = true
	}
	return nil
}

// work steps rows of the queue until it is empty.
func (a *Async) work() {
	k := a.v.nAct
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 {
		i := a.queue[0]
		a.queue = append(a.queue[:0], a.queue[1:]...)
		ctx := a.ctx
		a.mu.Unlock()
		err := ctx.Err()
		if err == nil {
			err = a.v.caught(func() error { return a.v.stepRow(ctx, i, a.actions[i*k:(i+1)*k]) })
		}
		if err != nil {
			a.v.envs[i].running = false
			err = fmt.Errorf("environment %d: %w", i, err)
		}
		a.mu.Lock()
		a.errs[i] = err
		a.ready = append(a.ready, i)
		if a.open--; a.open == 0 {
			a.end()
		}
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	a.running--
}

// Recv waits until least of the pending steps have ended, or all if fewer are pending, or ctx has ended. It returns at
// most most environments, those that ended first, in ascending order; their rows of the Vec's Batch hold the results.
// If one failed, Recv returns its error, and the environments must be reset. If ctx has ended, no step is lost: a later
// Recv returns it.
func (a *Async) Recv(ctx context.Context, least, most int) ([]int, error) {
	for {
		rows, err := a.take(least, most)
		if rows != nil || err != nil {
			return rows, err
		}
		select {
		case <-a.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Take is Recv without waiting: it returns the rows that are ready, possibly none.
func (a *Async) Take(most int) ([]int, error) { return a.take(0, most) }

func (a *Async) take(least, most int) ([]int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.open + len(a.ready)
	if all == 0 {
		return nil, ErrNotSent
	}
	if len(a.ready) < min(least, all) {
		return nil, nil
	}
	n := min(most, len(a.ready))
	rows := append(make([]int, 0, n), a.ready[:n]...)
	a.ready = append(a.ready[:0], a.ready[n:]...)
	slices.SortFunc(rows, cmp.Compare[int])
	var err error
	for _, i := range rows {
		a.pending[i] = false
		err = cmp.Or(err, a.errs[i])
	}
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Wait waits until no step runs, for example after the end of their context.
func (a *Async) Wait() { a.wg.Wait() }

// Gather writes the given rows of the last Batch to dst, which it makes or lengthens as needed, and returns it.
func (v *Vec) Gather(dst *Batch, rows []int) *Batch {
	if dst == nil {
		dst = NewBatch(len(v.envs), v.nObs, v.nMask, v.nInfo, v.mode)
		if v.repair != nil {
			dst.Failed = make([]error, len(v.envs))
		}
	}
	k := len(rows)
	cut := *dst
	cut.Obs, cut.Mask, cut.Info = dst.Obs[:k*v.nObs], dst.Mask[:k*v.nMask], dst.Info[:k*v.nInfo]
	cut.Reward, cut.Terminated, cut.Truncated, cut.Invalid = dst.Reward[:k], dst.Terminated[:k], dst.Truncated[:k], dst.Invalid[:k]
	cut.EpisodeReturn, cut.EpisodeLength = dst.EpisodeReturn[:k], dst.EpisodeLength[:k]
	if v.mode == SameStep {
		cut.FinalObs, cut.FinalMask, cut.FinalInfo = dst.FinalObs[:k*v.nObs], dst.FinalMask[:k*v.nMask], dst.FinalInfo[:k*v.nInfo]
	}
	if dst.Failed != nil {
		cut.Failed = dst.Failed[:k]
	}
	for j, i := range rows {
		cut.copyRow(j, v.batch, i)
	}
	return &cut
}
