package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/envs"
)

// imitateSeed separates the episodes that a baseline demonstrates from those of training, of
// evaluations and of comparisons.
const imitateSeed = 500_000_000

// imitateConfig are the arguments of an imitation before the training.
type imitateConfig struct {
	baseline      string // or the file of a model; empty: none
	steps, epochs int
	rate          string // of the gradient steps, in RL Zoo's form; empty: the learner's
}

func (c imitateConfig) check(spec *envs.Spec, urls []string) error {
	if c.baseline == "" {
		return nil
	}
	if len(urls) > 0 && !c.model() {
		return errors.New("a baseline is imitated in this process, from the true state: --imitate goes without --url")
	}
	if c.steps < 1 || c.epochs < 1 {
		return fmt.Errorf("--imitate-steps %d, --imitate-epochs %d: want at least 1 of each", c.steps, c.epochs)
	}
	if _, err := c.schedule(); err != nil {
		return err
	}
	if c.model() {
		return nil // is read for the environments that it is to play
	}
	_, err := spec.Baseline(c.baseline)
	return err
}

// schedule returns the learning rate, zero for the learner's.
func (c imitateConfig) schedule() (s agents.Schedule, err error) {
	if c.rate == "" {
		return s, nil
	}
	if err = s.UnmarshalText([]byte(c.rate)); err == nil && s.Initial <= 0 {
		err = fmt.Errorf("%q, want above 0", c.rate)
	}
	if err != nil {
		return s, fmt.Errorf("--imitate-learning-rate: %w", err)
	}
	return s, nil
}

// model reports whether a model is to be imitated.
func (c imitateConfig) model() bool { return strings.HasSuffix(c.baseline, modelSuffix) }

// modelSuffix is what names of model files end in.
const modelSuffix = ".safetensors"

// teacher returns what is to be imitated, and what releases it.
func (r *run) teacher(v *envs.Vec) (agents.Policy, func() error, error) {
	if r.imitate.model() {
		m, err := readModelFor(r.imitate.baseline, v)
		if err != nil {
			return nil, nil, err
		}
		return m, m.net.Close, nil
	}
	p, err := baseline.New(v, r.imitate.baseline, r.seed)
	return p, func() error { return nil }, err
}

// imitateTeacher lets the learner imitate the baseline or model, in environments that are made for it.
func (r *run) imitateTeacher(ctx context.Context) error {
	v, err := envs.NewVec(r.spec, r.params.NEnvs, envs.VecOptions{Options: r.kwargs, Autoreset: envs.SameStep})
	if err != nil {
		return err
	}
	defer v.Close()
	teacher, release, err := r.teacher(v)
	if err != nil {
		return err
	}
	defer release()
	rate, err := r.imitate.schedule()
	if err != nil {
		return err
	}
	m, err := r.learner.Imitate(ctx, imitation.Demonstration{
		Envs: v, Teacher: teacher, Steps: r.imitate.steps, Epochs: r.imitate.epochs, Seed: imitateSeed + r.seed, LearningRate: rate,
	})
	if err != nil {
		return fmt.Errorf("imitate %s: %w", r.imitate.baseline, err)
	}
	if !r.quiet {
		fmt.Fprintf(r.out, "imitated %s for %d steps: the same action in %.1f %% of them\n", r.imitate.baseline, r.imitate.steps, 100*m["imitation/accuracy"])
	}
	return r.logs.write(0, m, nil)
}
