package run

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// imitateSeed separates the demonstrated episodes from those of training, evaluations and comparisons.
const imitateSeed = 500_000_000

// Imitation holds the arguments of an imitation before the training.
type Imitation struct {
	Baseline      string // name of the baseline, or path of a model; empty: none
	Steps, Epochs int
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
	if c.Steps < 1 || c.Epochs < 1 {
		return fmt.Errorf("--imitate-steps %d, --imitate-epochs %d: want at least 1 of each", c.Steps, c.Epochs)
	}
	if _, err := c.schedule(); err != nil {
		return err
	}
	if c.model() {
		return nil // it is read later, for the environments in which it plays
	}
	_, err := spec.Baseline(c.Baseline)
	return err
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
func (c Imitation) model() bool { return strings.HasSuffix(c.Baseline, modelSuffix) }

// modelSuffix is the suffix of model files.
const modelSuffix = ".safetensors"

// teacher returns the teacher and a function that releases it.
func (r *Run) teacher(v *envs.Vec) (agents.Policy, func() error, error) {
	if r.Imitate.model() {
		m, err := play.ReadModelFor(r.Imitate.Baseline, v)
		if err != nil {
			return nil, nil, err
		}
		return m, m.Net.Close, nil
	}
	p, err := baseline.New(v, r.Imitate.Baseline, r.Seed)
	return p, func() error { return nil }, err
}

// imitateTeacher lets the learner imitate the baseline or model, in separate environments.
func (r *Run) imitateTeacher(ctx context.Context) error {
	v, err := envs.NewVec(r.spec, r.Params.NEnvs, envs.VecOptions{Options: r.EnvKwargs, Autoreset: envs.SameStep})
	if err != nil {
		return err
	}
	defer v.Close()
	teacher, release, err := r.teacher(v)
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
		Envs: v, Teacher: teacher, Steps: r.Imitate.Steps, Epochs: r.Imitate.Epochs, Seed: imitateSeed + r.Seed, LearningRate: rate,
	})
	if err != nil {
		return fmt.Errorf("imitate %s: %w", r.Imitate.Baseline, err)
	}
	if !r.Quiet {
		fmt.Fprintf(r.out, "imitated %s for %d steps: the same action in %.1f %% of them\n", r.Imitate.Baseline, r.Imitate.Steps, 100*m["imitation/accuracy"])
	}
	return r.logs.write(0, m, nil)
}
