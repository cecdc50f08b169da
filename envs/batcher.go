package envs

import "context"

// BatchRows is the most rows that a [Batcher] gets at once.
const BatchRows = 64

// A Batcher is a [Task] that steps many environments faster together than one after another, as by vectors. It leaves
// its cluster alone, masks no action, reports no diagnostics and never fails.
type Batcher interface {
	Task

	// ApplyBatch makes the steps of tasks, at most [BatchRows] of one [Maker], with the result of Apply and Observe of
	// each: for task k it reads the action of row rows[k] of actions, and writes Obs, Reward and Terminated of row rows[k]
	// of b. It does not keep its arguments.
	ApplyBatch(b *Batch, rows []int32, tasks []Task, actions []float32)
}

// gathered are the rows of a shard that a [Batcher] steps together.
type gathered struct {
	rows  [BatchRows]int32
	tasks [BatchRows]Task
}

// batches reports whether the environments step together. Failures that end only the episode of a row need a step of
// its own.
func (v *Vec) batches() bool {
	_, ok := v.envs[0].task.(Batcher)
	return ok && v.repair == nil
}

// stepTogether is stepRow for the rows from first to before end, at most BatchRows. It returns the row of an error.
func (v *Vec) stepTogether(ctx context.Context, first, end int, g *gathered) (int, error) {
	n := 0
	for i := first; i < end; i++ {
		if e := v.envs[i]; !e.ended {
			e.record(v.job.actions[i*v.nAct : (i+1)*v.nAct])
			g.rows[n], g.tasks[n] = int32(i), e.task
			n++
		}
	}
	if n > 0 {
		g.tasks[0].(Batcher).ApplyBatch(v.batch, g.rows[:n], g.tasks[:n], v.job.actions)
	}
	b, k := v.batch, 0
	for i := first; i < end; i++ {
		if k == n || int(g.rows[k]) != i { // its episode has ended before, and the mode is NextStep
			if err := v.nextRow(ctx, i); err != nil {
				return i, err
			}
			continue
		}
		k++
		e := v.envs[i]
		b.Truncated[i], b.Invalid[i] = e.count(Outcome{b.Reward[i], b.Terminated[i]}), false
		b.EpisodeReturn[i], b.EpisodeLength[i] = e.ret, int64(e.steps)
		if v.mode != SameStep || !e.ended {
			continue
		}
		copyRow(b.FinalObs, i, b.Obs, i, len(v.envs))
		copyRow(b.FinalMask, i, b.Mask, i, len(v.envs))
		if err := v.sameRow(ctx, i); err != nil {
			return i, err
		}
	}
	return end, nil
}
