package play

import (
	"context"
	"errors"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
)

// Config names a policy and the environment in which it plays.
type Config struct {
	Model, Baseline string         // either a model or a baseline
	Env             string         // default: the model's
	EnvKwargs       map[string]any // options of the environment; default: the model's
	Episodes        int
	Seed            uint64
	URLs            []string // of servers to play on; nil plays in this process
}

// Check returns an error unless the configuration names exactly one policy, and seeds outside the sealed block.
func (c *Config) Check() error {
	if (c.Model == "") == (c.Baseline == "") {
		return errors.New("want one of --model and --baseline")
	}
	return CheckSeed(c.Seed, c.Episodes)
}

// PlayedEnv returns the environment and its options for playing: those of held-out episodes, unless others are
// given.
func (c *Config) PlayedEnv(ctx context.Context) (*envs.Spec, map[string]any, error) {
	spec, trained, err := c.TrainedEnv(ctx)
	if err != nil {
		return nil, nil, err
	}
	return spec, HeldOut(spec, trained, c.EnvKwargs), nil
}

// TrainedEnv returns the environment, and the options that the model was trained with.
func (c *Config) TrainedEnv(ctx context.Context) (*envs.Spec, map[string]any, error) {
	var paths []string
	if c.Model != "" {
		paths = []string{c.Model}
	}
	id, trained, err := EnvOf(c.Env, paths)
	if err != nil {
		return nil, nil, err
	}
	spec, err := Lookup(ctx, id, c.URLs)
	return spec, trained, err
}

// OpenPolicy returns the policy of a model file, or else of a baseline, for the environments of v.
func OpenPolicy(ctx context.Context, v envs.VecEnv, c Config) (name string, p agents.Policy, closePolicy func(), err error) {
	if c.Model == "" {
		if f, ok := v.(*follower); ok {
			return c.Baseline, f, func() {}, nil
		}
		p, err = baseline.NewContext(ctx, v.(*envs.Vec), c.Baseline, c.Seed)
		return c.Baseline, p, func() {}, err
	}
	m, err := ReadModelFor(c.Model, v)
	if err != nil {
		return "", nil, nil, err
	}
	return ModelName(c.Model, m.Meta.Algo, true), m, func() { _ = m.Net.Close() }, nil
}

// PlayEpisode lets the policy play an episode in the only environment of v, whose autoreset mode must be
// Disabled, and returns its last batch. If seen is not nil, PlayEpisode calls it with each batch and the action
// that led to it; the first batch has no action. A seed of the sealed block is an error.
func PlayEpisode(ctx context.Context, v envs.VecEnv, policy agents.Policy, reset envs.VecResetOptions, seen func(b *envs.Batch, action []float32) error) (*envs.Batch, error) {
	for _, seed := range reset.Seeds {
		if err := CheckSeed(seed, 1); err != nil {
			return nil, err
		}
	}
	if reset.Seed != nil {
		if err := CheckSeed(*reset.Seed, 1); err != nil {
			return nil, err
		}
	}
	b, err := v.Reset(ctx, reset)
	if err != nil {
		return nil, err
	}
	if seen == nil {
		seen = func(*envs.Batch, []float32) error { return nil }
	}
	if err := seen(b, nil); err != nil {
		return nil, err
	}
	_, act := v.Spaces()
	for action := make([]float32, act.Size()); !b.Done(0); {
		if err := policy.Act(b, action); err != nil {
			return nil, err
		}
		if b, err = v.Step(ctx, action); err != nil {
			return nil, err
		}
		if err := seen(b, action); err != nil {
			return nil, err
		}
	}
	return b, nil
}
