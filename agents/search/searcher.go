package search

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

// A Searcher chooses actions by simulations in copies of an environment. Without Millis, equal seeds give equal actions
// for any number of goroutines. It is not safe for concurrent use.
type Searcher struct {
	config Config
	base   *base

	workers  []*worker  // of MethodRollout and MethodGumbel
	weighers []*weigher // of MethodPosterior
}

// NewSearcher returns a search in copies of e, or of environments that are made with the same options.
func NewSearcher(e *envs.Env, spec *envs.Spec, c Config) (*Searcher, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Millis > 0 && c.Now == nil {
		return nil, errors.New("search: a time limit and no clock")
	}
	_, act := e.Task().Spaces()
	if _, ok := act.(space.Discrete); !ok {
		return nil, fmt.Errorf("search: %s has actions of kind %s, want discrete ones", spec.ID, act.Describe().Kind)
	}
	posterior := c.Method == MethodPosterior
	if _, ok := e.Task().(envs.Resampler); !ok && !c.Clairvoyant && !posterior {
		return nil, fmt.Errorf("search: %w: %s; clairvoyant=true plays the episode's own future, which no agent can know", envs.ErrCannotResample, spec.ID)
	}
	s := &Searcher{config: c}
	var err error
	if s.base, err = newBase(spec, e.Task(), &c); err != nil {
		return nil, err
	}
	if posterior {
		return s, s.addWeighers(e, spec)
	}
	for range runtime.GOMAXPROCS(0) {
		b, err := s.base.clone()
		if err != nil {
			return nil, err
		}
		copied, err := e.Branch()
		if err != nil {
			return nil, err
		}
		s.workers = append(s.workers, &worker{s: s, base: b, env: copied, action: make([]float32, 1)})
	}
	return s, nil
}

// A Root is a state in which an action is chosen.
type Root struct {
	Env     *envs.Env
	Obs     []float32
	Mask    []bool
	Step    int64 // of the episode; with Obs and the seed of the search it determines the random numbers
	Base    int   // the base policy's action; MethodPosterior does not read it
	Advised []int // actions that MethodRollout tries first
}

// Choose returns the action for a state, in which the base policy has chosen r.Base.
func (s *Searcher) Choose(ctx context.Context, r Root) (int, error) {
	if s.config.Method == MethodPosterior {
		return s.weighers[0].choose(r)
	}
	d := decision{s: s, ctx: ctx, root: r.Env, seed: s.seed(r.Step, r.Obs), base: r.Base}
	if s.config.Now != nil {
		d.began = s.config.Now()
	}
	d.draw(r.Mask, r.Advised)
	if len(d.arms) == 1 {
		return d.base, nil
	}
	if s.config.Method == MethodGumbel {
		return d.halve()
	}
	return d.compare()
}

// seed returns a seed that depends only on the step and the observation, not on the future.
func (s *Searcher) seed(step int64, obs []float32) uint64 {
	h := fnv.New64a()
	var word [8]byte
	write := func(x uint64) {
		binary.LittleEndian.PutUint64(word[:], x)
		h.Write(word[:])
	}
	write(uint64(s.config.Seed))
	write(uint64(step))
	for _, x := range obs {
		write(uint64(math.Float32bits(x)))
	}
	return h.Sum64()
}

// worker plays simulations in a copy of an environment.
type worker struct {
	s      *Searcher
	base   *base
	env    *envs.Env
	action []float32
}

// simulate returns the return of an action in root, followed by the base policy. With a negative action the base policy
// also chooses the first, with its plan.
func (w *worker) simulate(ctx context.Context, root *envs.Env, action int, seed uint64) (float64, error) {
	root.BranchInto(w.env)
	if !w.s.config.Clairvoyant {
		if err := w.env.Resample(seed); err != nil {
			return 0, err
		}
	}
	play, err := w.base.begin(w.env, w.action)
	if err != nil {
		return 0, err
	}
	total, weight, horizon := 0.0, 1.0, w.s.config.Horizon
	for step := 0; w.env.Running(); step++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if horizon > 0 && step == horizon {
			value, err := w.base.value(w.env)
			return total + weight*value, err
		}
		if w.action[0] = float32(action); step > 0 || action < 0 {
			if err := play(ctx, step == 0 || step == 1 && action >= 0); err != nil {
				return 0, err
			}
		}
		t, err := w.env.Step(ctx, w.action)
		if err != nil {
			return 0, err
		}
		total += weight * t.Reward
		weight *= w.base.discount
	}
	return total, nil
}

// simulation plays an arm in a future.
type simulation struct {
	arm    *arm
	future int
	value  float64
	err    error
}

// play runs simulations on all workers.
func (d *decision) play(todo []simulation) error {
	var wg sync.WaitGroup
	for k, w := range d.s.workers {
		wg.Go(func() {
			for j := k; j < len(todo); j += len(d.s.workers) {
				sim := &todo[j]
				action := sim.arm.action
				if action == d.base {
					action = -1
				}
				sim.value, sim.err = w.simulate(d.ctx, d.root, action, d.seed+uint64(sim.future)+1)
			}
		})
	}
	wg.Wait()
	for i := range todo {
		if todo[i].err != nil {
			return todo[i].err
		}
	}
	return nil
}

// late reports whether the time limit of the decision has passed.
func (d *decision) late() bool {
	limit := time.Duration(d.s.config.Millis) * time.Millisecond
	return limit > 0 && d.s.config.Now().Sub(d.began) >= limit
}
