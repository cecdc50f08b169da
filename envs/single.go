package envs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Env is one environment: a [Task] on a cluster. It checks actions and the order of calls, seeds
// the task's generator, truncates episodes at the time limit, and counts. It follows Gymnasium's
// Env, except that Observe writes to the caller's memory, so that a [Vec] gathers observations
// without copying them. It is not safe for concurrent use.
type Env struct {
	// What a step of a [Batcher] needs lies together, for vectors of many environments.
	task    Task
	steps   int
	ret     float64 // sum of the rewards of this episode
	limit   int     // in steps; 0 is none
	running bool
	ended   bool
	closed  bool
	logged  bool // whether to keep begun and opts, and to log
	brief   bool // no log, since the task is a Resumer
	cut     bool // the episode exceeds keep: the log is incomplete
	planned bool // a step of the episode had a plan, which the log lacks

	spec *Spec
	info InfoWriter // nil if the task has none
	c    cluster.Cluster
	act  space.Space
	src  *pcg.Source
	rng  *rand.Rand

	episode uint64 // number of episodes begun
	copies  uint64 // number of copies of other environments to this one
	begun   []byte // state of src at Begin; with log, the current state can be replayed from it
	opts    map[string]any
	log     []float32 // actions since Begin, if logging
	keep    int       // maximum number of values to log in an episode; 0 is no bound
}

// Transition is the result of a step without the observation.
type Transition struct {
	Outcome
	Truncated bool // by the time limit; the episode may also have terminated
}

// ResetOptions are the arguments of Gymnasium's reset.
type ResetOptions struct {
	Seed    *uint64        // nil continues the stream; a first reset without a seed uses 0
	Options map[string]any // for the task's [ResetOptioner]
}

// NewEnv makes an environment of task on c and takes ownership of c. A maxEpisodeSteps other than 0
// overrides the time limit of the spec and of the task.
func NewEnv(spec *Spec, task Task, c cluster.Cluster, maxEpisodeSteps int) *Env {
	return new(Env).init(spec, task, c, maxEpisodeSteps)
}

func (e *Env) init(spec *Spec, task Task, c cluster.Cluster, maxEpisodeSteps int) *Env {
	*e = Env{spec: spec, task: task, c: c, src: pcg.New(0), limit: limitOf(spec, task, maxEpisodeSteps)} // seed 0 unless a reset brings one
	e.rng = rand.New(e.src)
	_, e.act = task.Spaces()
	e.info, _ = task.(InfoWriter)
	return e
}

// limitOf returns the time limit in force: the given one unless that is 0, then the task's, then the spec's.
func limitOf(spec *Spec, task Task, given int) int {
	if given != 0 {
		return given
	}
	if l, ok := task.(Limiter); ok {
		return l.MaxEpisodeSteps()
	}
	return spec.MaxEpisodeSteps
}

// Task returns the task, for its baselines.
func (e *Env) Task() Task { return e.task }

// State returns the state of the cluster, which the caller must not change.
func (e *Env) State() *cluster.State { return e.c.State() }

// MaxEpisodeSteps returns the time limit in steps, or 0 if there is none.
func (e *Env) MaxEpisodeSteps() int { return e.limit }

// Reset starts an episode.
func (e *Env) Reset(ctx context.Context, opts ResetOptions) error {
	if e.closed {
		return ErrClosed
	}
	e.running, e.ended, e.planned = false, false, false
	if len(opts.Options) > 0 {
		o, ok := e.task.(ResetOptioner)
		if !ok {
			return fmt.Errorf("%w: %s takes no options at reset, given %s", ErrInvalidOption, e.spec.ID, strings.Join(slices.Sorted(maps.Keys(opts.Options)), ", "))
		}
		if err := o.ResetOptions(opts.Options); err != nil {
			return err
		}
	}
	if opts.Seed != nil {
		e.src.Seed(*opts.Seed)
	}
	if e.logged {
		var err error
		if e.begun, err = e.src.AppendBinary(e.begun[:0]); err != nil {
			return err
		}
		e.opts, e.log, e.cut = opts.Options, e.log[:0], false
	}
	return e.begin(ctx)
}

func (e *Env) begin(ctx context.Context) error {
	e.episode++
	if err := e.c.Reset(ctx); err != nil {
		return fmt.Errorf("reset %s: %w", e.spec.ID, err)
	}
	if err := e.task.Begin(ctx, e.c, e.rng); err != nil {
		return fmt.Errorf("begin %s: %w", e.spec.ID, err)
	}
	e.steps, e.ret, e.running = 0, 0, true
	return nil
}

// Step carries out one action. Its error wraps [ErrResetNeeded] before the first Reset and
// after an episode's end, and [ErrInvalidAction], with the environment unchanged, if action
// is not in the action space. After any other error the environment must be reset.
func (e *Env) Step(ctx context.Context, action []float32) (Transition, error) {
	switch {
	case e.closed:
		return Transition{}, ErrClosed
	case !e.running:
		return Transition{}, ErrResetNeeded
	case !e.act.Contains(action):
		return Transition{}, invalidAction(e.act, action)
	}
	return e.step(ctx, action)
}

// step is Step without its checks.
func (e *Env) step(ctx context.Context, action []float32) (Transition, error) {
	e.record(action)
	out, err := e.task.Apply(ctx, e.c, action)
	if err == nil && math.IsNaN(out.Reward) {
		err = errors.New("the reward is NaN")
	}
	if err != nil {
		e.running = false
		return Transition{}, fmt.Errorf("step %d of %s with action %v: %w", e.steps, e.spec.ID, action, err)
	}
	return Transition{Outcome: out, Truncated: e.count(out)}, nil
}

// record logs an action that is carried out next.
func (e *Env) record(action []float32) {
	switch {
	case !e.logged || e.brief || e.cut:
	case e.keep > 0 && len(e.log)+len(action) > e.keep:
		e.log, e.cut = e.log[:0], true
	default:
		e.log = append(e.log, action...)
	}
}

// count counts a step that the task has taken, and reports whether the time limit truncates the episode.
func (e *Env) count(out Outcome) (truncated bool) {
	e.steps++
	e.ret += out.Reward
	truncated = e.limit > 0 && e.steps >= e.limit
	if out.Terminated || truncated {
		e.running, e.ended = false, true
	}
	return truncated
}

func invalidAction(act space.Space, action []float32) error {
	return fmt.Errorf("%w: %s not in %v", ErrInvalidAction, space.ActionText(action), act)
}

// Observe writes the current observation and action mask, of the sizes of the task's spaces.
// It may be called after a Reset, also when the episode has ended.
func (e *Env) Observe(obs []float32, mask []bool) { e.task.Observe(e.c.State(), obs, mask) }

// Info writes the diagnostics of the last Reset or Step to dst, one for each column of the
// spec.
func (e *Env) Info(dst []float64) {
	if e.info != nil {
		e.info.Info(e.c.State(), dst)
	}
}

// Close releases the cluster and the task. Further calls do nothing.
func (e *Env) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	return errors.Join(e.c.Close(), closeTask(e.task))
}

// closeTask closes a task that is an [io.Closer].
func closeTask(t Task) error {
	if c, ok := t.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
