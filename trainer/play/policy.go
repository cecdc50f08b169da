package play

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// Config are the arguments of a command that plays a policy.
type Config struct {
	Model, Baseline string // one of them
	Env             string
	Given, evaluate []string // options of the environment, as arguments
	EnvKwargs       map[string]any
	Episodes        int
	Seed            uint64
	URLs            []string
	Verify          bool
	Plot            string // PNG to draw the first episode to; empty: none
}

// AddFlags adds the flags that say which policy plays in which environment.
func (c *Config) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.Model, "model", "", "model file")
	f.StringVar(&c.Baseline, "baseline", "", "baseline, or random")
	f.StringVar(&c.Env, "env", "", "id of the environment (default: the model's)")
	f.StringArrayVar(&c.Given, "env-kwargs", nil, "option key:value of the environment (repeat; default: the model's, on held-out instances)")
	f.StringArrayVar(&c.evaluate, "eval-env-kwargs", nil, "further option key:value, as of train; wins over --env-kwargs (repeat)")
}

// Parse checks which policy is to play where, and reads the options.
func (c *Config) Parse() (err error) {
	switch {
	case (c.Model == "") == (c.Baseline == ""):
		return errors.New("want one of --model and --baseline")
	}
	if c.EnvKwargs, err = cli.ParseKwargs("env-kwargs", c.Given); err != nil {
		return err
	}
	evaluate, err := cli.ParseKwargs("eval-env-kwargs", c.evaluate)
	c.EnvKwargs = cli.MergeKwargs(c.EnvKwargs, evaluate)
	return err
}

// PlayedEnv returns the environment that is played, and its options: of held-out episodes, unless
// others were given.
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

// OpenPolicy returns the policy of a model file, or else of a baseline, for the environments
// of v.
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

// PlayEpisode lets the policy play an episode in the only environment of v, whose mode must be
// Disabled, and returns its last batch. seen, unless it is nil, is called with each batch and the
// action that led to it, the first with none.
func PlayEpisode(ctx context.Context, v envs.VecEnv, policy agents.Policy, reset envs.VecResetOptions, seen func(b *envs.Batch, action []float32) error) (*envs.Batch, error) {
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
