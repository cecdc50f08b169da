package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// evalConfig are the arguments of a command that plays a policy.
type evalConfig struct {
	model, baseline string // one of them
	env             string
	given, evaluate []string // options of the environment, as arguments
	kwargs          map[string]any
	episodes        int
	seed            uint64
	urls            []string
	verify          bool
	plot            string // PNG to draw the first episode to; empty: none
}

// evalResult is what `eval --json` prints.
type evalResult struct {
	Policy    string               `json:"policy"`
	Env       string               `json:"env"`
	EnvKwargs map[string]any       `json:"env_kwargs"`
	URLs      []string             `json:"urls,omitempty"`
	Verified  bool                 `json:"verified,omitempty"` // equal bit for bit in process
	Episodes  int                  `json:"episodes"`
	Seed      uint64               `json:"seed"`
	Mean      float64              `json:"mean"`
	Std       float64              `json:"std"`
	Returns   []float64            `json:"returns"`
	Lengths   []int64              `json:"lengths"`
	Metrics   map[string][]float64 `json:"metrics"` // of each episode

	metrics []envs.Metric
	played  string // how many episodes of which instances
}

func newEval() *cobra.Command {
	var c evalConfig
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Play a model or a baseline on held-out episodes and print its returns",
		Example: `  trainer eval --model logs/ppo/classic-CartPole-v1_1/best_model.safetensors --episodes 100
  trainer eval --env k8s/GangWindow-v0 --baseline dynamic_mpc --json
  trainer eval --env k8s/VerticalPodAutoscaler-v0 --baseline moving_window --plot episode.png
  trainer eval --model FILE --url ws://127.0.0.1:8765 --verify     # on a server, and in process: equal?
  trainer eval --env k8s/PodBalanceKwok-v0 --baseline Greedy --episodes 5 --url ws://127.0.0.1:8765`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.parse(); err != nil {
				return err
			}
			switch {
			case c.episodes < 1:
				return fmt.Errorf("--episodes %d, want at least 1", c.episodes)
			case c.verify && len(c.urls) == 0:
				return errors.New("--verify compares a server with this process and needs --url")
			case c.verify && c.baseline == baseline.RandomName && len(c.urls) > 1:
				return errors.New("--verify of random actions needs one --url: each server draws its own")
			}
			res, err := evaluate(cmd.Context(), c)
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, res)
			}
			res.print(cmd)
			return nil
		},
	}
	c.add(cmd)
	f := cmd.Flags()
	f.IntVar(&c.episodes, "episodes", 100, "held-out episodes")
	f.Uint64Var(&c.seed, "seed", compareSeed, "random seed of the first episode")
	f.StringArrayVar(&c.urls, "url", nil, "server to play on, such as ws://127.0.0.1:8765 (repeat to split the environments)")
	f.StringVar(&c.plot, "plot", "", "PNG file to draw the first episode to, where the environment can")
	f.BoolVar(&c.verify, "verify", false, "also play in this process, and fail unless all returns are equal bit for bit")
	return cmd
}

// add adds the flags that say which policy plays in which environment.
func (c *evalConfig) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.model, "model", "", "model file")
	f.StringVar(&c.baseline, "baseline", "", "baseline, or random")
	f.StringVar(&c.env, "env", "", "id of the environment (default: the model's)")
	f.StringArrayVar(&c.given, "env-kwargs", nil, "option key:value of the environment (repeat; default: the model's, on held-out instances)")
	f.StringArrayVar(&c.evaluate, "eval-env-kwargs", nil, "further option key:value, as of train; wins over --env-kwargs (repeat)")
}

// parse checks which policy is to play where, and reads the options.
func (c *evalConfig) parse() (err error) {
	switch {
	case (c.model == "") == (c.baseline == ""):
		return errors.New("want one of --model and --baseline")
	}
	if c.kwargs, err = parseKwargs("env-kwargs", c.given); err != nil {
		return err
	}
	evaluate, err := parseKwargs("eval-env-kwargs", c.evaluate)
	c.kwargs = merge(c.kwargs, evaluate)
	return err
}

// evaluate plays the policy, on the servers if there are some.
func evaluate(ctx context.Context, c evalConfig) (*evalResult, error) {
	spec, kwargs, err := c.playedEnv(ctx)
	if err != nil {
		return nil, err
	}
	name, r, err := playOn(ctx, spec, kwargs, c)
	if err != nil {
		return nil, err
	}
	if c.verify {
		local := c
		local.urls = nil
		_, again, err := playOn(ctx, spec, kwargs, local)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(r.Returns, again.Returns) || !slices.Equal(r.Lengths, again.Lengths) {
			return nil, fmt.Errorf("returns over the wire %v differ from those in process %v", r.Returns, again.Returns)
		}
	}
	if c.plot != "" {
		if err := plotEpisode(ctx, spec, kwargs, c); err != nil {
			return nil, err
		}
	}
	res := &evalResult{
		Policy: name, Env: spec.ID, EnvKwargs: kwargs, URLs: c.urls, Verified: c.verify, Episodes: c.episodes, Seed: c.seed,
		Mean: tracking.Mean(r.Returns), Std: deviation(r.Returns), Returns: r.Returns, Lengths: r.Lengths,
		Metrics: map[string][]float64{}, metrics: spec.Ranking(kwargs), played: episodesText(spec, kwargs, c.episodes),
	}
	for _, m := range res.metrics {
		res.Metrics[m.Column] = r.Column(spec.Column(m.Column))
	}
	return res, nil
}

// playedEnv returns the environment that is played, and its options: of held-out episodes, unless
// others were given.
func (c *evalConfig) playedEnv(ctx context.Context) (*envs.Spec, map[string]any, error) {
	spec, trained, err := c.trainedEnv(ctx)
	if err != nil {
		return nil, nil, err
	}
	return spec, heldOut(spec, trained, c.kwargs), nil
}

// trainedEnv returns the environment, and the options that the model was trained with.
func (c *evalConfig) trainedEnv(ctx context.Context) (*envs.Spec, map[string]any, error) {
	var paths []string
	if c.model != "" {
		paths = []string{c.model}
	}
	id, trained, err := envOf(c.env, paths)
	if err != nil {
		return nil, nil, err
	}
	spec, err := lookup(ctx, id, c.urls)
	return spec, trained, err
}

// playOn plays the episodes in new environments.
func playOn(ctx context.Context, spec *envs.Spec, kwargs map[string]any, c evalConfig) (string, *evaluation.Result, error) {
	v, err := openEnvs(ctx, spec, c.episodes, envs.VecOptions{Options: kwargs, Autoreset: envs.SameStep}, c.urls)
	if err != nil {
		return "", nil, err
	}
	defer v.Close()
	v = c.following(ctx, v)
	name, policy, closePolicy, err := openPolicy(ctx, v, c)
	if err != nil {
		return "", nil, err
	}
	defer closePolicy()
	r, err := evaluation.Play(ctx, v, policy, evaluation.Seeds(c.seed, c.episodes))
	return name, r, err
}

// openPolicy returns the policy of a model file, or else of a baseline, for the environments
// of v.
func openPolicy(ctx context.Context, v envs.VecEnv, c evalConfig) (name string, p agents.Policy, closePolicy func(), err error) {
	if c.model == "" {
		if f, ok := v.(*follower); ok {
			return c.baseline, f, func() {}, nil
		}
		p, err = baseline.NewContext(ctx, v.(*envs.Vec), c.baseline, c.seed)
		return c.baseline, p, func() {}, err
	}
	m, err := readModelFor(c.model, v)
	if err != nil {
		return "", nil, nil, err
	}
	return modelName(c.model, m.meta.Algo, true), m, func() { _ = m.net.Close() }, nil
}

// playEpisode lets the policy play an episode in the only environment of v, whose mode must be
// Disabled, and returns its last batch. seen, unless it is nil, is called with each batch and the
// action that led to it, the first with none.
func playEpisode(ctx context.Context, v envs.VecEnv, policy agents.Policy, reset envs.VecResetOptions, seen func(b *envs.Batch, action []float32) error) (*envs.Batch, error) {
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

func (res *evalResult) print(cmd *cobra.Command) {
	w := cmd.OutOrStdout()
	where := ""
	if len(res.URLs) > 0 {
		where = fmt.Sprintf(" over %v", res.URLs)
	}
	fmt.Fprintf(w, "%s on %s%s: mean return %.2f ± %.2f over %s\n", res.Policy, res.Env, where, res.Mean, res.Std, res.played)
	for _, m := range res.metrics {
		fmt.Fprintf(w, "  mean %s %.2f %s\n", m.Column, tracking.Mean(res.Metrics[m.Column]), m.Unit)
	}
	if res.Verified {
		fmt.Fprintln(w, "  every return is equal to that in process, bit for bit")
	}
}
