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

// RandomName is the name by which [NewPolicies] draws random permitted actions.
const RandomName = "random"

var (
	// ErrUnknownBaseline means that an environment does not have a baseline. Errors wrap it.
	ErrUnknownBaseline = errors.New("envs: unknown baseline")
	// ErrBaseline means that a baseline does not support an environment's options, or finds no action. Errors wrap it.
	ErrBaseline = errors.New("envs: the baseline cannot act")
)

// baselineError is an [ErrBaseline].
type baselineError struct {
	baseline string
	cause    error
}

func (e *baselineError) Error() string { return fmt.Sprintf("baseline %s: %s", e.baseline, e.cause) }

func (e *baselineError) Unwrap() []error { return []error{ErrBaseline, e.cause} }

// A Planner is a [Task] whose baselines choose more than an action can express. Their policies leave a plan with the
// task, and the next Apply carries it out. [Policies], and recorders of episodes, take plans; plans never leave the
// process.
type Planner interface {
	// TakePlan removes the plan that a policy has left and returns it, or nil if there is none.
	TakePlan() Plan
	// LeavePlan restores a plan, to the task that had it or to another one with the same options in the same state.
	LeavePlan(p Plan)
}

// Plan is the plan of a policy for a [Planner]. Only tasks interpret it.
type Plan any

// Policies holds the policies of one baseline for the environments of a [Vec], or draws random
// permitted actions. It is not safe for concurrent use, nor for use while the Vec steps.
type Policies struct {
	v    *Vec
	name string
	base *Baseline // nil for random actions
	rows []policyRow
	act  []float32
	rng  *rand.Rand // of random actions
}

// policyRow is the last answer of a policy for one environment.
type policyRow struct {
	policy  Policy
	copies  uint64 // the environment's count of copies when the policy was made
	episode uint64 // of the last answer
	step    int    // of the last answer
	asked   bool   // the last answer exists and is valid
	plan    Plan   // nil if it made none
	err     error
}

// NewPolicies returns the named baseline's policies for the environments of v. The name
// [RandomName] draws random permitted actions from seed. Errors wrap [ErrUnknownBaseline] and
// [ErrBaseline].
func NewPolicies(v *Vec, name string, seed uint64) (*Policies, error) {
	r := &Policies{v: v, name: name, rows: make([]policyRow, len(v.envs)), act: make([]float32, len(v.envs)*v.nAct)}
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

// make makes a policy for the current task of environment i.
func (r *Policies) make(i int) error {
	e := r.v.envs[i]
	policy, err := r.base.New(e.task)
	if err != nil {
		return &baselineError{r.name, err}
	}
	r.rows[i] = policyRow{policy: policy, copies: e.copies}
	return nil
}

// Act writes the baseline's actions for the current states to actions. It changes nothing in the environments, and
// repeats its answer until they step. It does not write rows that take no action, because an autoreset or a Reset comes
// next; see [Vec.Decides]. Policies run in parallel, since a solver may take seconds. When ctx ends, Act starts no
// further policy and waits for the running ones. If an environment was never reset, the error is [ErrResetNeeded].
func (r *Policies) Act(ctx context.Context, actions []float32) error {
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

// Decides reports whether environment i takes an action in the next step, that is, whether its episode runs.
func (v *Vec) Decides(i int) bool { return v.envs[i].running }

// askAll calls the policies of all environments that need an answer.
func (r *Policies) askAll(ctx context.Context) {
	var wg sync.WaitGroup
	workers := workers(ctx, min(len(r.rows), runtime.GOMAXPROCS(0)))
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

// fresh reports whether row i holds an answer for the current state.
func (r *Policies) fresh(i int) bool {
	e, row := r.v.envs[i], &r.rows[i]
	return row.asked && row.err == nil && row.copies == e.copies && row.episode == e.episode && row.step == e.steps
}

// ask calls the policy of environment i and takes its plan, even if the policy fails.
func (r *Policies) ask(ctx context.Context, i int) (err error) {
	e, row, k := r.v.envs[i], &r.rows[i], r.v.nAct
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("baseline %s: panic: %v\n%s", r.name, x, debug.Stack())
		}
		row.asked = err == nil // after an error the policy starts over
		row.plan = e.takePlan()
	}()
	if row.copies != e.copies { // the environment was replaced by a copy
		if err := r.make(i); err != nil {
			return err
		}
	}
	first := !row.asked || row.episode != e.episode
	row.episode, row.step = e.episode, e.steps
	e.takePlan() // removes one of another baseline
	if err := row.policy(ctx, e.State(), first, r.act[i*k:(i+1)*k]); err != nil {
		if ctx.Err() != nil {
			return ctx.Err() // not the baseline's fault
		}
		return &baselineError{r.name, err}
	}
	return nil
}

// draw draws an action for each environment without one for its state, in order.
func (r *Policies) draw() {
	k, m := r.v.nAct, r.v.nMask
	for i, e := range r.v.envs {
		if row := &r.rows[i]; r.v.Decides(i) && !r.fresh(i) {
			row.asked, row.copies, row.episode, row.step = true, e.copies, e.episode, e.steps
			r.v.act.Sample(r.rng, r.v.batch.Mask[i*m:(i+1)*m], r.act[i*k:(i+1)*k])
		}
	}
}

// Follow is [Policies.Act], and also leaves the baseline's plans with the environments. The next Step of the Vec must
// take exactly these actions.
func (r *Policies) Follow(ctx context.Context, actions []float32) error {
	if err := r.Act(ctx, actions); err != nil {
		return err
	}
	for i := range r.rows {
		if r.fresh(i) && r.rows[i].plan != nil {
			r.v.envs[i].task.(Planner).LeavePlan(r.rows[i].plan)
			r.v.envs[i].planned = true
		}
	}
	return nil
}

// Remembers reports whether later answers may depend on earlier states: a baseline was asked in an episode that still
// runs, or random actions continue their stream. Otherwise new Policies give the same answers.
func (r *Policies) Remembers() bool {
	if r.base == nil {
		return true
	}
	for i, e := range r.v.envs {
		if row := &r.rows[i]; e.running && row.asked && row.copies == e.copies && row.episode == e.episode {
			return true
		}
	}
	return false
}

// Step takes the baseline's step in every environment, plans included. Errors are those of
// [Policies.Act] and [Vec.Step].
func (r *Policies) Step(ctx context.Context) (*Batch, error) {
	if err := r.Follow(ctx, r.act); err != nil {
		return nil, err
	}
	b, err := r.v.Step(ctx, r.act)
	if err != nil { // some environments may not have stepped, and still hold their plans
		for _, e := range r.v.envs {
			e.takePlan()
		}
	}
	return b, err
}

// takePlan removes the plan that a policy has left with the task.
func (e *Env) takePlan() Plan {
	if p, ok := e.task.(Planner); ok {
		return p.TakePlan()
	}
	return nil
}
