package envs

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// A Resampler is a [Cloner] whose future can be drawn again. A copy of an environment holds the
// episode's own future, which no agent knows: a search that plays copies resamples them first.
type Resampler interface {
	Cloner

	// Resample replaces all of the running episode that an agent cannot know, such as pods to
	// come, by what rng draws from what it may know. The past, the observation and the permitted
	// actions stay. Episodes with equal pasts and equal states of rng get equal futures, whatever
	// theirs were. From now on the Task draws from rng. If the options make something unknown
	// that cannot be drawn, the error wraps [ErrCannotResample].
	Resample(s *cluster.State, rng *rand.Rand) error
}

// ErrCannotResample is wrapped by errors of environments whose future cannot be drawn again: their
// task is no [Resampler], or not with these options.
var ErrCannotResample = errors.New("envs: the environment's future cannot be resampled")

// Branch returns a copy of environment i outside v, random generator included. Its error wraps
// [ErrCannotClone].
func (v *Vec) Branch(i int) (*Env, error) {
	if err := v.CanClone(); err != nil {
		return nil, err
	}
	b := v.envs[i].blank()
	b.logged = false
	v.envs[i].copyTo(b)
	return b, nil
}

// BranchInto makes dst, which Branch of v or a Vec of equal options returned, a copy of environment i.
// Policies of baselines for dst must be made again.
func (v *Vec) BranchInto(i int, dst *Env) { v.envs[i].copyTo(dst) }

// Resample draws the future of e again from what an agent may know; see [Resampler]. Equal pasts and
// seeds give equal futures. The error wraps [ErrCannotResample], or is [ErrResetNeeded].
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

// Running reports whether e takes actions: an episode was begun and has not ended.
func (e *Env) Running() bool { return e.running }
