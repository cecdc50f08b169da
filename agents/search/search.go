// Package search plans by playing copies of an environment. A [Policy] tries candidate actions, lets a base policy
// continue after each in random futures, and chooses by the returns.
//
// A copy of an environment holds the episode's own future, so the search draws another with the environment's
// [envs.Resampler]. It rejects environments without one, unless Clairvoyant allows it to play the episode's own future;
// then it is an oracle.
package search

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Methods of search.
const (
	// MethodRollout compares all candidates in the same futures, and deviates from the base policy
	// only if the mean gain less Confidence standard errors is above 0.
	MethodRollout = "rollout"
	// MethodGumbel draws actions without replacement from a prior around the base policy, and evaluates them by
	// sequential halving: Danihelka et al., "Policy improvement by planning with Gumbel", ICLR 2022.
	MethodGumbel = "gumbel"
)

// Parameters are the settings of a search that [Parse] reads, with the tags of options.
type Parameters struct {
	Base        string  `opt:"base" doc:"baseline that plays on after each action"`
	Advisers    string  `opt:"advisers" doc:"rollout: baselines whose actions are tried first, such as FGD+BestFit; others are drawn"`
	Actions     int     `opt:"k" doc:"actions tried"`
	Futures     int     `opt:"m" doc:"futures played for each action; the simulations of gumbel are k × m"`
	Confidence  float64 `opt:"confidence" doc:"rollout: standard errors by which an action must be better in the mean than the base policy's"`
	Exploration float64 `opt:"exploration" doc:"gumbel: prior probability of all actions that the base policy does not take"`
	Horizon     int     `opt:"horizon" doc:"steps after which a simulation ends; 0 plays to the episode's end"`
	Millis      int     `opt:"ms" doc:"milliseconds for a decision, after which no further future is begun; 0 is no limit. Decisions then depend on the machine"`
	Seed        int     `opt:"seed" doc:"random seed of futures and of the actions tried"`
	Clairvoyant bool    `opt:"clairvoyant" doc:"play the episode's own future: an oracle"`
}

// Config holds the settings of a search.
type Config struct {
	Method string // MethodRollout or MethodGumbel
	Parameters
	Now func() time.Time // a clock, which Millis needs
}

// DefaultParameters are the defaults of Parameters. Base has none.
var DefaultParameters = Parameters{Actions: 6, Futures: 12, Confidence: 1, Exploration: 0.5}

// Parse reads a method with parameters, such as "rollout:base=WeightedFGD,k=6,m=12".
func Parse(text string) (Config, error) {
	method, given, _ := strings.Cut(text, ":")
	c := Config{Method: method, Parameters: DefaultParameters}
	form := envs.Parametric(envs.Baseline{Name: method}, DefaultParameters, func(Parameters) func(envs.Task) (envs.Policy, error) { return nil })
	values, err := form.ParseParameters(given)
	if err == nil {
		err = envs.DecodeOptions(values, &c.Parameters)
	}
	if err != nil {
		return Config{}, fmt.Errorf("search %q: %w", text, err)
	}
	return c, c.checkNumbers()
}

func (c *Config) checkNumbers() error {
	switch {
	case c.Method != MethodRollout && c.Method != MethodGumbel:
		return fmt.Errorf("search: method %q, want %s or %s", c.Method, MethodRollout, MethodGumbel)
	case c.Actions < 2 || c.Futures < 1 || c.Confidence < 0 || c.Horizon < 0 || c.Millis < 0:
		return fmt.Errorf("search: k=%d, m=%d, confidence=%v, horizon=%d and ms=%d, want at least 2, 1, 0, 0 and 0", c.Actions, c.Futures, c.Confidence, c.Horizon, c.Millis)
	case c.Exploration <= 0 || c.Exploration >= 1:
		return fmt.Errorf("search: exploration=%v, want a number between 0 and 1", c.Exploration)
	case c.Base == "":
		return errors.New("search: no base, want base=NAME, a baseline that plays on after each action")
	}
	return nil
}

func (c *Config) check(v *envs.Vec) error {
	if err := c.checkNumbers(); err != nil {
		return err
	}
	if c.Millis > 0 && c.Now == nil {
		return errors.New("search: a time limit and no clock")
	}
	_, act := v.Spaces()
	if _, ok := act.(space.Discrete); !ok {
		return fmt.Errorf("search: %s has actions of kind %s, want discrete ones", v.Spec().ID, act.Describe().Kind)
	}
	if _, ok := v.Env(0).Task().(envs.Resampler); !ok && !c.Clairvoyant {
		return fmt.Errorf("search: %w: %s; clairvoyant=true plays the episode's own future, as an oracle", envs.ErrCannotResample, v.Spec().ID)
	}
	return v.CanClone()
}

// Policy searches in the environments of a Vec. It is an [agents.Policy] for this Vec only, and the next Step of the
// Vec must take its actions, since the base policy may leave a plan in the environments beside an action. Without
// Millis, equal seeds give equal actions for any number of goroutines.
type Policy struct {
	ctx    context.Context // Act takes no context
	v      *envs.Vec
	config Config
	base   *envs.Baseline
	n      int // actions

	policies *envs.Policies // of the base policy in v
	advice   []float32
	advisers []*envs.Policies
	advised  [][]float32 // their actions
	workers  []*worker
}

var _ agents.Policy = (*Policy)(nil)

// New returns a search in the environments of v.
func New(ctx context.Context, v *envs.Vec, c Config) (*Policy, error) {
	if err := c.check(v); err != nil {
		return nil, err
	}
	base, err := v.Spec().Baseline(c.Base)
	if err != nil {
		return nil, err
	}
	if base.Oracle && !c.Clairvoyant {
		return nil, fmt.Errorf("search: base %s is an oracle; clairvoyant=true makes the search one, too", c.Base)
	}
	_, act := v.Spaces()
	p := &Policy{ctx: ctx, v: v, config: c, base: base, n: act.(space.Discrete).N, advice: make([]float32, v.NumEnvs())}
	if p.policies, err = envs.NewPolicies(v, c.Base, uint64(c.Seed)); err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(c.Advisers, "+") {
		if name == "" {
			continue
		}
		adviser, err := envs.NewPolicies(v, name, uint64(c.Seed))
		if err != nil {
			return nil, err
		}
		p.advisers, p.advised = append(p.advisers, adviser), append(p.advised, make([]float32, v.NumEnvs()))
	}
	for range runtime.GOMAXPROCS(0) {
		e, err := v.Branch(0)
		if err != nil {
			return nil, err
		}
		p.workers = append(p.workers, &worker{p: p, env: e, action: make([]float32, 1)})
	}
	return p, nil
}

// Act implements [agents.Policy].
func (p *Policy) Act(b *envs.Batch, actions []float32) error {
	for k, adviser := range p.advisers {
		if err := adviser.Act(p.ctx, p.advised[k]); err != nil {
			return err
		}
	}
	if err := p.policies.Follow(p.ctx, p.advice); err != nil {
		return err
	}
	for i := range p.advice {
		if !p.v.Decides(i) {
			continue
		}
		chosen, err := p.decide(i, b)
		if err != nil {
			return fmt.Errorf("environment %d: %w", i, err)
		}
		if actions[i] = float32(chosen); actions[i] != p.advice[i] {
			if planner, ok := p.v.Env(i).Task().(envs.Planner); ok {
				planner.TakePlan() // discard the plan, which belongs to the base policy's action
			}
		}
	}
	return nil
}

// decide returns the action for environment i.
func (p *Policy) decide(i int, b *envs.Batch) (int, error) {
	d := decision{p: p, env: i, seed: p.seed(i, b), base: int(p.advice[i])}
	if p.config.Now != nil {
		d.began = p.config.Now()
	}
	var advised []int
	for _, actions := range p.advised {
		advised = append(advised, int(actions[i]))
	}
	m := len(b.Mask) / p.v.NumEnvs()
	d.draw(b.Mask[i*m:(i+1)*m], advised)
	if len(d.arms) == 1 {
		return d.base, nil
	}
	if p.config.Method == MethodGumbel {
		return d.halve()
	}
	return d.compare()
}

// seed returns a seed that depends only on the step and the observation, not on the future.
func (p *Policy) seed(i int, b *envs.Batch) uint64 {
	h := fnv.New64a()
	var word [8]byte
	write := func(x uint64) {
		binary.LittleEndian.PutUint64(word[:], x)
		h.Write(word[:])
	}
	write(uint64(p.config.Seed))
	write(uint64(b.EpisodeLength[i]))
	k := len(b.Obs) / p.v.NumEnvs()
	for _, x := range b.Obs[i*k : (i+1)*k] {
		write(uint64(math.Float32bits(x)))
	}
	return h.Sum64()
}

// worker plays simulations in a copy of an environment.
type worker struct {
	p      *Policy
	env    *envs.Env
	action []float32
}

// simulate returns the return of an action in environment i, followed by the base policy. With a
// negative action the base policy also chooses the first, with its plan.
func (w *worker) simulate(i, action int, seed uint64) (float64, error) {
	w.p.v.BranchInto(i, w.env)
	if !w.p.config.Clairvoyant {
		if err := w.env.Resample(seed); err != nil {
			return 0, err
		}
	}
	base, err := w.p.base.New(w.env.Task())
	if err != nil {
		return 0, err
	}
	total := 0.0
	for step := 0; w.env.Running() && (w.p.config.Horizon == 0 || step < w.p.config.Horizon); step++ {
		if err := w.p.ctx.Err(); err != nil {
			return 0, err
		}
		if w.action[0] = float32(action); step > 0 || action < 0 {
			if err := base(w.p.ctx, w.env.State(), step == 0 || step == 1 && action >= 0, w.action); err != nil {
				return 0, err
			}
		}
		t, err := w.env.Step(w.p.ctx, w.action)
		if err != nil {
			return 0, err
		}
		total += t.Reward
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
	for k, w := range d.p.workers {
		wg.Go(func() {
			for j := k; j < len(todo); j += len(d.p.workers) {
				s := &todo[j]
				action := s.arm.action
				if action == d.base {
					action = -1
				}
				s.value, s.err = w.simulate(d.env, action, d.seed+uint64(s.future)+1)
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
	limit := time.Duration(d.p.config.Millis) * time.Millisecond
	return limit > 0 && d.p.config.Now().Sub(d.began) >= limit
}
