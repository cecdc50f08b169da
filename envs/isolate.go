package envs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// mostFailures is the number of failures of one environment without a step in between that fail the Vec.
const mostFailures = 3

// repair holds what a [Vec] needs to replace failed environments.
type repair struct {
	maker      Maker
	newCluster func() (cluster.Cluster, error)
	limit      int
	failures   []int  // of each environment since its last step
	before     *Batch // rows before the current step
}

// isolate makes a failure end only the episode of its environment from now on.
func (v *Vec) isolate(maker Maker, newCluster func() (cluster.Cluster, error), limit int) {
	n := len(v.envs)
	v.repair = &repair{maker, newCluster, limit, make([]int, n), NewBatch(n, v.nObs, v.nMask, v.nInfo, v.mode)}
	v.batch.Failed = make([]error, n)
}

// advanceIsolated is advance, except that a failure of environment i ends its episode.
func (v *Vec) advanceIsolated(ctx context.Context, i int, action []float32) error {
	b, before := v.batch, v.repair.before
	before.copyRow(i, b, i)
	ret, length := v.envs[i].ret, v.envs[i].steps
	err := v.caught(func() error { return v.advance(ctx, i, action) })
	if err == nil {
		v.repair.failures[i] = 0
		return nil
	}
	if err := v.replace(ctx, i, err); err != nil {
		return err
	}
	b.copyRow(i, before, i)
	if v.mode == SameStep {
		copyRow(b.FinalObs, i, before.Obs, i, len(v.envs))
		copyRow(b.FinalMask, i, before.Mask, i, len(v.envs))
		copyRow(b.FinalInfo, i, before.Info, i, len(v.envs))
	}
	b.Reward[i], b.Terminated[i], b.Truncated[i], b.Invalid[i] = 0, false, true, false
	b.EpisodeReturn[i], b.EpisodeLength[i] = ret, int64(length)
	b.Failed[i] = err
	v.envs[i].ended = true
	return nil
}

// beginIsolated is begin, except that a failed environment i is replaced by a new one, which begins with the same
// options.
func (v *Vec) beginIsolated(ctx context.Context, i int, opts ResetOptions) error {
	for {
		err := v.caught(func() error { return v.begin(ctx, i, opts) })
		if err == nil {
			return nil
		}
		if err := v.replace(ctx, i, err); err != nil {
			return err
		}
		v.batch.Failed[i] = err
		opts.Seed = nil // the random stream continues, so that the next attempt draws another episode
	}
}

// caught calls do and returns a panic as an error.
func (v *Vec) caught(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// notFailures are the errors that are not failures of an environment.
var notFailures = []error{ErrInvalidAction, ErrInvalidOption, ErrResetNeeded, ErrClosed, cluster.ErrUnavailable}

// replace replaces environment i, which failed with err. It returns err if that is not a failure, an error if the
// environment failed too often, and otherwise the error of making the new one, or nil.
func (v *Vec) replace(ctx context.Context, i int, err error) error {
	r, old := v.repair, v.envs[i]
	old.running = false
	is := func(target error) bool { return errors.Is(err, target) }
	if ctx.Err() != nil || slices.ContainsFunc(notFailures, is) {
		return err
	}
	if r.failures[i]++; r.failures[i] >= mostFailures {
		r.failures[i] = 0
		return fmt.Errorf("failed %d times in a row: %w", mostFailures, err)
	}
	return v.caught(func() error {
		task, err := r.maker()
		if err != nil {
			return fmt.Errorf("make again: %w", err)
		}
		c, err := r.newCluster()
		if err != nil {
			return errors.Join(fmt.Errorf("make cluster again: %w", err), closeTask(task))
		}
		e := NewEnv(v.spec, task, c, r.limit)
		*e.src = *old.src
		e.logged, e.brief, e.keep, e.episode, e.copies = old.logged, old.brief, old.keep, old.episode, old.copies+1
		v.envs[i] = e
		_ = v.caught(old.Close) // a broken environment may fail to close
		return nil
	})
}
