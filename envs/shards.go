package envs

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// shardNanos is the work in nanoseconds that justifies another goroutine. Its hand-over takes 2 µs on an idle machine
// and 20 µs on a busy one.
const shardNanos = 50_000

// crewNanos is the same for the workers of a Crew, which take the next shard without a hand-over.
const crewNanos = 2_000

// defaultStepNanos is the step cost of a Spec that states none.
const defaultStepNanos = 1000

// A rowError is the first failure of a shard.
type rowError struct {
	row int
	err error
}

// stepNanos returns an estimate of the nanoseconds that all environments take for a step.
func (v *Vec) stepNanos() int {
	nanos := cmp.Or(v.spec.StepNanos, defaultStepNanos)
	if c, ok := v.envs[0].task.(Coster); ok {
		nanos = c.StepNanos()
	}
	return len(v.envs) * nanos
}

// split makes the given number of shards, at most one for each environment, and returns their number.
func (v *Vec) split(shards int) int {
	n := len(v.envs)
	shards = min(max(shards, 1), n)
	v.errs, v.bounds = make([]rowError, shards), v.bounds[:0]
	if v.batches() {
		v.gather = make([]gathered, shards)
	}
	for k := range shards + 1 {
		v.bounds = append(v.bounds, k*n/shards)
	}
	return shards
}

// A Crew is a group of goroutines that share a job of many short parts, such as the team of a network (models/team).
type Crew interface {
	// Do calls f for each part, 0 to parts-1, on any of its goroutines, and returns when all calls have.
	Do(parts int, f func(worker, part int))
}

// Share lets c do the next steps and resets, in small shards, so that a slow environment delays only itself. The
// goroutines of v end. Results do not change. During a call of v, c must not be used otherwise.
func (v *Vec) Share(c Crew) {
	v.stopShards()
	v.crew, v.shard = c, func(_, shard int) { v.runShard(shard) }
	v.split(v.stepNanos() / crewNanos)
}

// stopShards ends the goroutines.
func (v *Vec) stopShards() {
	for _, wake := range v.work {
		close(wake)
	}
	v.work = nil
}

func (v *Vec) startShards(shards int) {
	if shards <= 0 {
		shards = min(runtime.GOMAXPROCS(0), v.stepNanos()/shardNanos)
	}
	shards = v.split(shards)
	for k := 1; k < shards; k++ {
		wake := make(chan struct{})
		v.work = append(v.work, wake)
		go func() {
			for range wake {
				v.runShard(k)
				v.done <- struct{}{}
			}
		}()
	}
}

// A Sharer is a context that bounds the goroutines of calls with it, for example in a server that shares the machine
// among its clients. The bound changes no result.
type Sharer interface {
	// Workers returns how many goroutines, 1 to most, may now compute.
	Workers(most int) int
}

// workers returns how many of most goroutines may compute for ctx.
func workers(ctx context.Context, most int) int {
	if s, ok := ctx.(Sharer); ok && most > 1 {
		return s.Workers(most)
	}
	return most
}

// run runs the job in all shards and returns the error of the lowest row that failed.
func (v *Vec) run() (*Batch, error) {
	if v.crew != nil {
		v.crew.Do(len(v.errs), v.shard)
	} else {
		v.runShards()
	}
	v.job = job{}
	for _, e := range v.errs {
		if e.err != nil {
			return nil, fmt.Errorf("environment %d: %w", e.row, e.err)
		}
	}
	return v.batch, nil
}

// runShards runs the job with the goroutines of v; the context may permit fewer.
func (v *Vec) runShards() {
	shards := len(v.work) + 1
	most := workers(v.job.ctx, shards)
	for k := 0; k < shards; k += most {
		others := v.work[k : min(k+most, shards)-1] // work[i] wakes shard i+1
		for _, wake := range others {
			wake <- struct{}{}
		}
		v.runShard(k)
		for range others {
			<-v.done
		}
	}
}

// runShard runs the job for the rows of shard k. A task's panic becomes the row's error, so that one bad environment
// does not end the process.
func (v *Vec) runShard(k int) {
	v.errs[k] = rowError{}
	row := v.bounds[k]
	defer func() {
		if p := recover(); p != nil {
			v.envs[row].running = false
			v.errs[k] = rowError{row, fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	for end := v.bounds[k+1]; row < end; {
		err, next := v.job.ctx.Err(), row+1
		switch {
		case err != nil:
		case v.job.actions == nil:
			err = v.resetRow(row)
		case v.gather != nil:
			next = min(row+BatchRows, end)
			row, err = v.stepTogether(v.job.ctx, row, next, &v.gather[k])
		default:
			err = v.stepRow(v.job.ctx, row, v.job.actions[row*v.nAct:(row+1)*v.nAct])
		}
		if err != nil {
			v.errs[k] = rowError{row, err}
			return
		}
		row = next
	}
}
