package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/agents/search"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// imitateSeed separates the demonstrated episodes from those of training, evaluations and comparisons.
const imitateSeed = 500_000_000

// Imitation holds the arguments of an imitation before the training.
type Imitation struct {
	Baseline      string // name of the baseline, path of a model, or a search in the form of [search.Parse]; empty: none
	Steps, Epochs int
	Rounds        int // of Steps and Epochs; from the second on, the base of a search is the learner's model
	WeightDecay   float64
	Rate          string // learning rate of the gradient steps, in RL Zoo's form; empty: the learner's
}

// Check returns an error for arguments that contradict each other or the environment.
func (c Imitation) Check(spec *envs.Spec, urls []string) error {
	if c.Baseline == "" {
		return nil
	}
	if len(urls) > 0 && !c.model() {
		return errors.New("a baseline is imitated in this process, from the true state: --imitate goes without --url")
	}
	if c.Steps < 1 || c.Epochs < 1 || c.Rounds < 1 {
		return fmt.Errorf("--imitate-steps %d, --imitate-epochs %d, --imitate-rounds %d: want at least 1 of each", c.Steps, c.Epochs, c.Rounds)
	}
	if !(c.WeightDecay >= 0) || math.IsInf(c.WeightDecay, 0) {
		return fmt.Errorf("--imitate-weight-decay %v: want 0 or more", c.WeightDecay)
	}
	if _, err := c.schedule(); err != nil {
		return err
	}
	switch {
	case search.IsSearch(c.Baseline):
		_, err := c.search()
		return err
	case c.Rounds > 1:
		return fmt.Errorf("--imitate-rounds %d of %s: only a search improves from round to round, such as rollout:base=%[2]s", c.Rounds, c.Baseline)
	case c.model():
		return nil // it is read later, for the environments in which it plays
	}
	_, err := spec.Baseline(c.Baseline)
	return err
}

// search returns the search that is imitated.
func (c Imitation) search() (search.Config, error) {
	s, err := search.Parse(c.Baseline)
	if err == nil && s.Millis > 0 {
		err = fmt.Errorf("--imitate %s: with ms the decisions, and so the training, depend on the machine: leave it out", c.Baseline)
	}
	if err == nil && s.Method == search.MethodPosterior && c.Rounds > 1 {
		err = fmt.Errorf("--imitate-rounds %d of %s: the learner's model does not score gains, so it cannot be the next base; want 1", c.Rounds, c.Baseline)
	}
	return s, err
}

// schedule returns the learning rate; zero means the learner's.
func (c Imitation) schedule() (s agents.Schedule, err error) {
	if c.Rate == "" {
		return s, nil
	}
	if err = s.UnmarshalText([]byte(c.Rate)); err == nil && s.Initial <= 0 {
		err = fmt.Errorf("%q, want above 0", c.Rate)
	}
	if err != nil {
		return s, fmt.Errorf("--imitate-learning-rate: %w", err)
	}
	return s, nil
}

// model reports whether the teacher is a model.
func (c Imitation) model() bool {
	return strings.HasSuffix(c.Baseline, models.Ext) && !search.IsSearch(c.Baseline)
}

// teacher returns the teacher of a round, from 0, and a function that releases it.
func (r *Run) teacher(ctx context.Context, v *envs.Vec, round int) (agents.Policy, func() error, error) {
	free := func() error { return nil }
	switch {
	case search.IsSearch(r.Imitate.Baseline):
		c, err := r.Imitate.search()
		if err != nil {
			return nil, nil, err
		}
		if c.Seed += round; round > 0 {
			c.Base = r.path(fmt.Sprintf("imitation_%d%s", round, models.Ext))
			if err := models.WriteFileAtomic(c.Base, r.Learner.Save); err != nil {
				return nil, nil, err
			}
		}
		if !r.Quiet && r.Imitate.Rounds > 1 {
			fmt.Fprintf(r.out, "round %d: %s over %s\n", round+1, c.Method, filepath.Base(c.Base))
		}
		p, err := search.New(ctx, v, c)
		return p, free, err
	case r.Imitate.model():
		m, err := play.ReadModelFor(r.Imitate.Baseline, v)
		if err != nil {
			return nil, nil, err
		}
		return m, m.Net.Close, nil
	}
	p, err := baseline.New(v, r.Imitate.Baseline, r.Seed)
	return p, free, err
}

// imitateTeacher lets the learner imitate the baseline, model or search, in separate environments. In rounds after the
// first, a search improves the learner's own policy (expert iteration: Anthony, Tian and Barber, "Thinking Fast and Slow
// with Deep Learning and Tree Search", NeurIPS 2017).
func (r *Run) imitateTeacher(ctx context.Context) error {
	v, err := envs.NewVec(r.spec, r.Params.NEnvs, envs.VecOptions{Options: r.EnvKwargs, Autoreset: envs.SameStep})
	if err != nil {
		return err
	}
	defer v.Close()
	for round := range r.Imitate.Rounds {
		if err := r.imitateRound(ctx, v, round); err != nil {
			return err
		}
	}
	return nil
}

// roundSeeds separates the episodes of rounds.
const roundSeeds = 1_000_000

// imitationSeed returns the seed of the demonstrations of a round, from 0.
func (c *Config) imitationSeed(round int) uint64 {
	return imitateSeed + c.Seed + uint64(round)*roundSeeds
}

// likeness says how well a learner imitates. Actions of a Box are hardly ever equal.
func likeness(act space.Space, m agents.Metrics) string {
	if _, ok := act.(space.Box); ok {
		return fmt.Sprintf("negative log-likelihood of its actions %.2f", m["imitation/neglogp"])
	}
	return fmt.Sprintf("the same action in %.1f %% of them", 100*m["imitation/accuracy"])
}

// imitateRound lets the learner imitate the teacher of a round, from 0.
func (r *Run) imitateRound(ctx context.Context, v *envs.Vec, round int) error {
	teacher, release, err := r.teacher(ctx, v, round)
	if err != nil {
		return err
	}
	defer release()
	rate, err := r.Imitate.schedule()
	if err != nil {
		return err
	}
	l, ok := r.Learner.Learner.(imitation.Learner)
	if !ok {
		return fmt.Errorf("--imitate with %s, which learns from a dataset: record one of %s and give it as --dataset", r.Algo, r.Imitate.Baseline)
	}
	m, err := l.Imitate(ctx, imitation.Demonstration{
		Envs: v, Teacher: teacher, Steps: r.Imitate.Steps, Epochs: r.Imitate.Epochs, Seed: r.imitationSeed(round),
		LearningRate: rate, WeightDecay: r.Imitate.WeightDecay,
	})
	if err != nil {
		return fmt.Errorf("imitate %s: %w", r.Imitate.Baseline, err)
	}
	if !r.Quiet {
		_, act := v.Spaces()
		fmt.Fprintf(r.out, "imitated %s for %d steps: %s\n", r.Imitate.Baseline, r.Imitate.Steps, likeness(act, m))
	}
	if round+1 < r.Imitate.Rounds {
		return nil // the log has one row at 0 timesteps
	}
	return r.logs.write(0, m, nil)
}
