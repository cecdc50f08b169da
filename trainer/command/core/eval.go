package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// evalResult is the JSON of `eval --json`.
type evalResult struct {
	Policy    string               `json:"policy"`
	Env       string               `json:"env"`
	EnvKwargs map[string]any       `json:"env_kwargs"`
	URLs      []string             `json:"urls,omitempty"`
	Verified  bool                 `json:"verified,omitempty"` // equal bit for bit when played in this process
	Episodes  int                  `json:"episodes"`
	Seed      uint64               `json:"seed"`
	Mean      float64              `json:"mean"`
	Std       float64              `json:"std"`
	Returns   []float64            `json:"returns"`
	Lengths   []int64              `json:"lengths"`
	Metrics   map[string][]float64 `json:"metrics"` // return of each episode

	metrics []envs.Metric
	played  string // number of episodes and their instances
}

// evalConfig holds the arguments of eval.
type evalConfig struct {
	play.Config
	verify bool
	plot   string // path of the PNG file of the first episode; empty: none
}

func newEval() *cobra.Command {
	var c evalConfig
	var parse func() error
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Play a model or a baseline on held-out episodes and print its returns",
		Example: `  trainer eval --model logs/ppo/classic-CartPole-v1_1/best_model.safetensors --episodes 100
  trainer eval --env k8s/GangWindow-v0 --baseline dynamic_mpc --json
  trainer eval --env k8s/VerticalPodAutoscaler-v0 --baseline moving_window --plot episode.png
  trainer eval --model FILE --url ws://127.0.0.1:8765 --verify     # on a server, and in process: equal?
  trainer eval --env k8s/PodBalanceKwok-v0 --baseline Greedy --episodes 5 --url ws://127.0.0.1:8765`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := parse(); err != nil {
				return err
			}
			switch {
			case c.Episodes < 1:
				return fmt.Errorf("--episodes %d, want at least 1", c.Episodes)
			case c.verify && len(c.URLs) == 0:
				return errors.New("--verify compares a server with this process and needs --url")
			case c.verify && c.Baseline == baseline.RandomName && len(c.URLs) > 1:
				return errors.New("--verify of random actions needs one --url: each server draws its own")
			}
			res, err := evaluate(cmd.Context(), c)
			if err != nil {
				return err
			}
			return cli.Print(cmd, res, res.print)
		},
	}
	parse = addPolicyFlags(cmd, &c.Config)
	f := cmd.Flags()
	f.IntVar(&c.Episodes, "episodes", 100, "held-out episodes")
	f.Uint64Var(&c.Seed, "seed", play.CompareSeed, "random seed of the first episode")
	f.StringArrayVar(&c.URLs, "url", nil, "server to play on, such as ws://127.0.0.1:8765, or k8s+dns://name:port for all servers behind a name (repeat to split the environments)")
	f.StringVar(&c.plot, "plot", "", "PNG file with a plot of the first episode, if the environment supports it")
	f.BoolVar(&c.verify, "verify", false, "also play in this process, and fail unless all returns are bitwise equal")
	return cmd
}

// evaluate plays the policy, on the servers if there are any.
func evaluate(ctx context.Context, c evalConfig) (*evalResult, error) {
	spec, kwargs, err := c.PlayedEnv(ctx)
	if err != nil {
		return nil, err
	}
	name, r, err := playOn(ctx, spec, kwargs, c.Config)
	if err != nil {
		return nil, err
	}
	if c.verify {
		local := c.Config
		local.URLs = nil
		_, again, err := playOn(ctx, spec, kwargs, local)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(r.Returns, again.Returns) || !slices.Equal(r.Lengths, again.Lengths) {
			return nil, fmt.Errorf("returns over the wire %v differ from those in process %v", r.Returns, again.Returns)
		}
	}
	if c.plot != "" {
		if err := plotEpisode(ctx, spec, kwargs, c.Config, c.plot); err != nil {
			return nil, err
		}
	}
	res := &evalResult{
		Policy: name, Env: spec.ID, EnvKwargs: kwargs, URLs: c.URLs, Verified: c.verify, Episodes: c.Episodes, Seed: c.Seed,
		Mean: tracking.Mean(r.Returns), Std: tracking.Deviation(r.Returns), Returns: r.Returns, Lengths: r.Lengths,
		Metrics: map[string][]float64{}, metrics: spec.Ranking(kwargs), played: play.EpisodesText(spec, kwargs, c.Episodes),
	}
	for _, m := range res.metrics {
		res.Metrics[m.Column] = r.Column(spec.Column(m.Column))
	}
	return res, nil
}

// playOn plays the episodes in new environments.
func playOn(ctx context.Context, spec *envs.Spec, kwargs map[string]any, c play.Config) (string, *evaluation.Result, error) {
	v, err := play.OpenEnvs(ctx, spec, c.Episodes, envs.VecOptions{Options: kwargs, Autoreset: envs.SameStep}, c.URLs)
	if err != nil {
		return "", nil, err
	}
	defer v.Close()
	v = c.Follow(ctx, v)
	name, policy, closePolicy, err := play.OpenPolicy(ctx, v, c)
	if err != nil {
		return "", nil, err
	}
	defer closePolicy()
	r, err := evaluation.Play(ctx, v, policy, evaluation.Seeds(c.Seed, c.Episodes))
	return name, r, err
}

func (res *evalResult) print(w io.Writer) error {
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
	return nil
}
