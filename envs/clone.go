package envs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// A Cloner is a [Task] that can be copied at any time, for search and for [Vec.Save].
type Cloner interface {
	// Clone returns a Task with the same options in the same state. Later changes of one do not
	// show in the other; they may share read-only data. The copy draws from rng, which is in the
	// state of the generator given to Begin.
	Clone(rng *rand.Rand) Task
}

// ErrCannotClone means that an environment cannot be copied: its task is no [Cloner], or its cluster is not in memory.
// Errors wrap it.
var ErrCannotClone = errors.New("envs: the environment cannot be copied")

// Saved is the state of the environments of a [Vec], with random generators, autoreset and
// statistics.
type Saved struct {
	of    *Vec
	envs  []*Env
	batch *Batch
}

// cloneable returns an error if e cannot be copied.
func (e *Env) cloneable() error {
	if _, ok := e.task.(Cloner); !ok {
		return fmt.Errorf("%w: the task of %s has no Clone", ErrCannotClone, e.spec.ID)
	}
	if _, ok := e.c.(*sim.Cluster); !ok {
		return fmt.Errorf("%w: the cluster of %s is not in memory", ErrCannotClone, e.spec.ID)
	}
	return nil
}

// blank returns an environment that copyTo can copy e to.
func (e *Env) blank() *Env {
	b := &Env{spec: e.spec, c: sim.New(), act: e.act, src: pcg.New(0), limit: e.limit, logged: e.logged, brief: e.brief, keep: e.keep}
	b.rng = rand.New(b.src)
	return b
}

// copyTo copies the state of e to dst, which must be an environment of the same Vec or come from
// blank. Both must be cloneable. A policy's plan is not copied.
func (e *Env) copyTo(dst *Env) {
	*dst.src = *e.src
	dst.task = e.task.(Cloner).Clone(dst.rng)
	dst.takePlan()
	dst.info, _ = dst.task.(InfoWriter)
	e.c.(*sim.Cluster).CloneInto(dst.c.(*sim.Cluster))
	dst.running, dst.ended = e.running, e.ended
	dst.episode, dst.steps, dst.ret = e.episode, e.steps, e.ret
	dst.begun, dst.opts, dst.log, dst.cut, dst.planned = slices.Clone(e.begun), e.opts, slices.Clone(e.log), e.cut, e.planned
	dst.copies++
}

// CanClone returns nil if [Vec.Save], [Vec.Load] and [Vec.Fork] work, or an error that wraps
// [ErrCannotClone].
func (v *Vec) CanClone() error {
	if v.closed {
		return ErrClosed
	}
	for _, e := range v.envs {
		if err := e.cloneable(); err != nil {
			return err
		}
	}
	return nil
}

// Save copies the state of all environments and the last Batch, for [Vec.Load]. Its error wraps
// [ErrCannotClone], or is that of ctx.
//
// Save takes memory for as many environments as v has. [Vec.Snapshot] is for files and for other
// processes.
func (v *Vec) Save(ctx context.Context) (*Saved, error) {
	if err := v.CanClone(); err != nil {
		return nil, err
	}
	s := &Saved{of: v, batch: NewBatch(len(v.envs), v.nObs, v.nMask, v.nInfo, v.mode)}
	for _, e := range v.envs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := e.blank()
		e.copyTo(b)
		s.envs = append(s.envs, b)
	}
	for i := range v.envs {
		s.batch.copyRow(i, v.batch, i)
	}
	return s, nil
}

// Load returns all environments to the state s and returns its Batch. s must come from Save of v,
// else Load panics; it may be loaded again. From there equal actions lead to equal batches.
// Policies start over.
func (v *Vec) Load(s *Saved) (*Batch, error) {
	if s.of != v {
		panic("envs: Load of what another Vec has saved")
	}
	if v.closed {
		return nil, ErrClosed
	}
	for i, e := range s.envs {
		e.copyTo(v.envs[i])
		v.batch.copyRow(i, s.batch, i)
	}
	return v.batch, nil
}

// A BaselineCacher is a [Task] whose baselines can cache their computations for the current episode. Tasks that replay
// an episode after [Vec.Load] gain from it. The cache changes only time and memory; estimates of memory exclude it.
type BaselineCacher interface {
	CacheBaselines()
}

// CacheBaselines makes baselines cache their computations for the current episodes, if tasks are a [BaselineCacher].
func (v *Vec) CacheBaselines() {
	for _, e := range v.envs {
		if c, ok := e.task.(BaselineCacher); ok && e.running {
			c.CacheBaselines()
		}
	}
}

// Fork makes each environment in to a copy of environment from, its random generator included, and
// returns the Batch, in which their rows are equal. Its error wraps [ErrCannotClone]. Policies
// start over in the copies. Fork panics if an index is out of range.
func (v *Vec) Fork(from int, to []int) (*Batch, error) {
	if err := v.CanClone(); err != nil {
		return nil, err
	}
	for _, i := range to {
		if i != from {
			v.envs[from].copyTo(v.envs[i])
			v.batch.copyRow(i, v.batch, from)
		}
	}
	return v.batch, nil
}

// copyRow sets row i to row j of src, a batch of the same sizes.
func (b *Batch) copyRow(i int, src *Batch, j int) {
	copyRow(b.Obs, i, src.Obs, j, len(b.Reward))
	copyRow(b.Mask, i, src.Mask, j, len(b.Reward))
	copyRow(b.Info, i, src.Info, j, len(b.Reward))
	copyRow(b.FinalObs, i, src.FinalObs, j, len(b.Reward))
	copyRow(b.FinalMask, i, src.FinalMask, j, len(b.Reward))
	copyRow(b.FinalInfo, i, src.FinalInfo, j, len(b.Reward))
	b.Reward[i], b.EpisodeReturn[i], b.EpisodeLength[i] = src.Reward[j], src.EpisodeReturn[j], src.EpisodeLength[j]
	b.Terminated[i], b.Truncated[i], b.Invalid[i] = src.Terminated[j], src.Truncated[j], src.Invalid[j]
	if b.Failed != nil && src.Failed != nil {
		b.Failed[i] = src.Failed[j]
	}
}

func copyRow[T any](dst []T, i int, src []T, j, n int) {
	k := len(dst) / n
	copy(dst[i*k:(i+1)*k], src[j*k:(j+1)*k])
}
