package envs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/kubernasium/kubernasium/envs/pcg"
)

// RandomName is the name by which [NewRules] gives random permitted actions.
const RandomName = "random"

var (
	// ErrUnknownBaseline is wrapped by errors for a baseline that an environment does not have.
	ErrUnknownBaseline = errors.New("envs: unknown baseline")
	// ErrBaseline is wrapped by errors of baselines that cannot serve the options of an
	// environment, or that find no action.
	ErrBaseline = errors.New("envs: the baseline cannot act")
)

// ruleError is an [ErrBaseline].
type ruleError struct {
	baseline string
	cause    error
}

func (e *ruleError) Error() string { return fmt.Sprintf("baseline %s: %s", e.baseline, e.cause) }

func (e *ruleError) Unwrap() []error { return []error{ErrBaseline, e.cause} }

// A Planner is a [Task] with baselines that choose more than an action says: their rules leave a
// plan with the task, which the next Apply carries out. Only [Rules] takes plans, so that they
// never leave the process.
type Planner interface {
	// TakePlan removes the plan that a rule has left and returns a function that leaves it
	// again in the same state, or nil if there is none.
	TakePlan() (leave func())
}

// Rules are the rules of one baseline for the environments of a [Vec], or random permitted
// actions. They are not safe for concurrent use, nor beside the Vec.
type Rules struct {
	v    *Vec
	name string
	base *Baseline // nil for random actions
	rows []ruleRow
	act  []float32
	rng  *rand.Rand // of random actions
}

// ruleRow is the last answer of a rule for one environment.
type ruleRow struct {
	rule    Rule
	copies  uint64 // of the environment, for whose task the rule was made
	episode uint64 // in which it was last asked
	step    int    // of that episode
	asked   bool   // at that step
	leave   func() // leaves what it chose beyond its action; nil if that says all
	err     error
}

// NewRules returns the rules of the baseline of that name, or of random permitted actions, which
// are drawn with seed, for the environments of v. Its errors wrap [ErrUnknownBaseline] and
// [ErrBaseline].
func NewRules(v *Vec, name string, seed uint64) (*Rules, error) {
	r := &Rules{v: v, name: name, rows: make([]ruleRow, len(v.envs)), act: make([]float32, len(v.envs)*v.nAct)}
	if name == RandomName {
		r.rng = rand.New(pcg.New(seed))
		return r, nil
	}
	var err error
	if r.base, err = v.spec.Baseline(name); err != nil {
		return nil, err
	}
	for i := range v.envs {
		if err := r.make(i); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// make makes the rule of environment i, for the task that it has now.
func (r *Rules) make(i int) error {
	e := r.v.envs[i]
	rule, err := r.base.New(e.task)
	if err != nil {
		return &ruleError{r.name, err}
	}
	r.rows[i] = ruleRow{rule: rule, copies: e.copies}
	return nil
}

// Act writes the actions that the baseline takes now to actions. It changes nothing in the
// environments, and until they step it always gives the same answer. Rows that decide nothing, because an autoreset or a Reset comes next, keep what they
// have; [Vec.Decides] reports them. Rules run in parallel, since a solver may take seconds; when
// ctx ends, it asks no more rules, and those that run end too. An environment
// that was never reset is an [ErrResetNeeded].
func (r *Rules) Act(ctx context.Context, actions []float32) error {
	k := r.v.nAct
	for i, e := range r.v.envs {
		if !e.running && !e.ended {
			return fmt.Errorf("environment %d: %w", i, ErrResetNeeded)
		}
	}
	if r.base == nil {
		r.draw()
	} else {
		r.askAll(ctx)
	}
	for i := range r.rows {
		if !r.v.Decides(i) {
			continue
		}
		if err := r.rows[i].err; err != nil {
			return fmt.Errorf("environment %d: %w", i, err)
		}
		copy(actions[i*k:(i+1)*k], r.act[i*k:(i+1)*k])
	}
	return nil
}

// Decides reports whether the next step takes an action in environment i: its episode runs.
func (v *Vec) Decides(i int) bool { return v.envs[i].running }

// askAll asks the rules of all environments that decide now.
func (r *Rules) askAll(ctx context.Context) {
	var wg sync.WaitGroup
	workers := min(len(r.rows), runtime.GOMAXPROCS(0))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(r.rows); i += workers {
				if !r.v.Decides(i) || r.fresh(i) {
					continue
				}
				if r.rows[i].err = ctx.Err(); r.rows[i].err == nil {
					r.rows[i].err = r.ask(ctx, i)
				}
			}
		})
	}
	wg.Wait()
}

// fresh reports whether the rule of environment i has answered in this state.
func (r *Rules) fresh(i int) bool {
	e, row := r.v.envs[i], &r.rows[i]
	return row.asked && row.err == nil && row.copies == e.copies && row.episode == e.episode && row.step == e.steps
}

// ask asks the rule of environment i and takes its plan back, also where it fails.
func (r *Rules) ask(ctx context.Context, i int) (err error) {
	e, row, k := r.v.envs[i], &r.rows[i], r.v.nAct
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("baseline %s: panic: %v\n%s", r.name, x, debug.Stack())
		}
		row.asked = err == nil // after an error it starts over
		row.leave = e.takePlan()
	}()
	if row.copies != e.copies { // another task has taken the place of the rule's
		if err := r.make(i); err != nil {
			return err
		}
	}
	first := !row.asked || row.episode != e.episode
	row.episode, row.step = e.episode, e.steps
	e.takePlan() // of another baseline
	if err := row.rule(ctx, e.State(), first, r.act[i*k:(i+1)*k]); err != nil {
		if ctx.Err() != nil {
			return ctx.Err() // which is no fault of the baseline
		}
		return &ruleError{r.name, err}
	}
	return nil
}

// draw draws an action for each environment that has none for this state, in their order.
func (r *Rules) draw() {
	k, m := r.v.nAct, r.v.nMask
	for i, e := range r.v.envs {
		if row := &r.rows[i]; r.v.Decides(i) && !r.fresh(i) {
			row.asked, row.copies, row.episode, row.step = true, e.copies, e.episode, e.steps
			r.v.act.Sample(r.rng, r.v.batch.Mask[i*m:(i+1)*m], r.act[i*k:(i+1)*k])
		}
	}
}

// Follow is [Rules.Act], and leaves each environment with what the baseline chooses beyond its
// action. The next Step of the Vec must take exactly these actions.
func (r *Rules) Follow(ctx context.Context, actions []float32) error {
	if err := r.Act(ctx, actions); err != nil {
		return err
	}
	for i := range r.rows {
		if r.fresh(i) && r.rows[i].leave != nil {
			r.rows[i].leave()
		}
	}
	return nil
}

// Step takes the step that the baseline chooses in every environment, also what no action says.
// Errors are those of [Rules.Act] and of [Vec.Step].
func (r *Rules) Step(ctx context.Context) (*Batch, error) {
	if err := r.Follow(ctx, r.act); err != nil {
		return nil, err
	}
	b, err := r.v.Step(ctx, r.act)
	if err != nil { // then some environments may not have been stepped
		for _, e := range r.v.envs {
			e.takePlan()
		}
	}
	return b, err
}

// takePlan takes back the plan that a rule has left with the task.
func (e *Env) takePlan() (leave func()) {
	if p, ok := e.task.(Planner); ok {
		return p.TakePlan()
	}
	return nil
}
