package envs

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// A Resampler is a [Cloner] whose future can be resampled. A copy of an environment holds the episode's own future,
// which no agent knows, so a search resamples copies before it plays them.
type Resampler interface {
	Cloner

	// Resample replaces everything in the running episode that an agent cannot know, such as future pods, by draws of
	// rng from what it may know. The past, the observation and the permitted actions stay. Episodes with equal pasts
	// and equal states of rng get equal futures, regardless of their own. From now on the Task draws from rng. If the
	// options make something unknown that cannot be drawn, the error wraps [ErrCannotResample].
	Resample(s *cluster.State, rng *rand.Rand) error
}

// ErrCannotResample means that an environment's future cannot be resampled: its task is no [Resampler], or not with
// these options. Errors wrap it.
var ErrCannotResample = errors.New("envs: the environment's future cannot be resampled")

// Branch returns a copy of e, including its random generator. Its error wraps [ErrCannotClone].
func (e *Env) Branch() (*Env, error) {
	if err := e.cloneable(); err != nil {
		return nil, err
	}
	b := e.blank()
	b.logged = false
	e.copyTo(b)
	return b, nil
}

// BranchInto makes dst a copy of e. dst must come from Branch of an environment with equal options. Policies of
// baselines for dst must be made again.
func (e *Env) BranchInto(dst *Env) { e.copyTo(dst) }

// Resample resamples the future of e; see [Resampler]. Equal pasts and seeds give equal futures. The error wraps
// [ErrCannotResample], or is [ErrResetNeeded].
func (e *Env) Resample(seed uint64) error {
	r, ok := e.task.(Resampler)
	switch {
	case !ok:
		return fmt.Errorf("%w: the task of %s has no Resample", ErrCannotResample, e.spec.ID)
	case !e.running:
		return ErrResetNeeded
	}
	e.src.Seed(seed)
	e.copies++
	return r.Resample(e.c.State(), e.rng)
}

// Running reports whether e takes actions: an episode has begun and not ended.
func (e *Env) Running() bool { return e.running }
