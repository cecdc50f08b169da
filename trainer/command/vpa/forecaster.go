package vpa

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/forecast"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// forecasterEnv is what the forecaster plays, and forecasterTeacher the baseline whose episodes it
// is trained on: one that lets all demand be seen, as it never throttles.
const (
	forecasterEnv     = "k8s/VerticalPodAutoscaler-v0"
	forecasterTeacher = "hindsight_max"
)

// forecasterConfig are the arguments of `vpa forecaster`.
type forecasterConfig struct {
	forecast.Config
	kwargs map[string]any
	seed   uint64
	out    string
}

// forecasterResult is what `vpa forecaster --json` prints.
type forecasterResult struct {
	Model    string  `json:"model"`
	Episodes int     `json:"episodes"`
	First    float64 `json:"first_loss"` // of the first pass, in the mean
	Last     float64 `json:"last_loss"`  // of the last pass
	HeldOut  float64 `json:"held_out_loss"`
}

func newVPAForecaster() *cobra.Command {
	c := forecasterConfig{Config: forecast.Defaults()}
	var kwargs []string
	cmd := &cobra.Command{
		Use:   "forecaster",
		Short: "Train the LSTM forecaster, a recommender that trainer eval and compare play as a model",
		Long: `Train the LSTM forecaster, a recommender that trainer eval and compare play as a model.

It learns quantiles of the usage of the coming hours on training workloads, and nothing from rewards.
The quantile that is requested is to fit the weighting: 0.2, 0.5, 0.8 for slack_heavy, equal, risk_heavy.`,
		Example: `  trainer vpa forecaster --out models/pretrained/k8s-VerticalPodAutoscaler-v0/lstm_forecaster.safetensors
  trainer compare --model models/pretrained/k8s-VerticalPodAutoscaler-v0/lstm_forecaster.safetensors`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given, err := cli.ParseKwargs("env-kwargs", kwargs)
			if err != nil {
				return err
			}
			c.kwargs = cli.MergeKwargs(map[string]any{"encoding": "upstream", "safety": "memory", "hold": 30}, given)
			if c.Episodes < 1 {
				return fmt.Errorf("--episodes %d, want at least 1", c.Episodes)
			}
			res, err := c.train(cmd.Context(), cli.CommandLine(cmd))
			if err != nil {
				return err
			}
			if cli.WantJSON(cmd) {
				return cli.PrintJSON(cmd, res)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d episodes: pinball loss %.4f in the first pass, %.4f in the last, %.4f on held-out workloads\n%s\n",
				res.Episodes, res.First, res.Last, res.HeldOut, res.Model)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.out, "out", "o", "lstm_forecaster.safetensors", "model file to write")
	f.Uint64Var(&c.seed, "seed", 1, "random seed of weights and episodes")
	f.IntVar(&c.Episodes, "episodes", c.Episodes, "training episodes")
	f.Float64Var(&c.Quantile, "quantile", c.Quantile, "of CPU usage that is requested")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat)")
	return cmd
}

// train trains the network and writes the model.
func (c *forecasterConfig) train(ctx context.Context, command string) (*forecasterResult, error) {
	spec, err := envs.Lookup(forecasterEnv)
	if err != nil {
		return nil, err
	}
	v, err := envs.NewVec(spec, c.Batch, envs.VecOptions{Options: c.kwargs, Autoreset: envs.SameStep})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	obs, act := v.Spaces()
	env := agents.EnvInfo{ID: spec.ID, Kwargs: c.kwargs, Obs: obs, Act: act, NumEnvs: c.Batch}
	if err := forecast.CheckEnv(env); err != nil {
		return nil, err
	}
	rng := rand.New(pcg.New(c.seed ^ play.NetworkStream))
	net, err := fused.New(forecast.Spec(c.Hidden), rng)
	if err != nil {
		return nil, err
	}
	defer net.Close()
	t, err := forecast.NewTrainer(c.Config, net)
	if err != nil {
		return nil, err
	}
	p, err := baseline.New(v, forecasterTeacher, c.seed)
	if err != nil {
		return nil, err
	}
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &c.seed})
	if err != nil {
		return nil, err
	}
	var batches []forecast.Episodes
	steps := 0
	for seen := 0; seen < c.Episodes; seen += c.Batch {
		var e forecast.Episodes
		if e, b, err = forecast.Observe(ctx, v, p, b); err != nil {
			return nil, err
		}
		batches = append(batches, e)
		steps += e.Steps * e.N
	}
	save := func(path string) error {
		f, err := forecast.File(c.Config, env, net, c.seed, steps)
		if err != nil {
			return err
		}
		f.Meta.Metadata = map[string]string{cli.CommandKey: command}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return models.WriteFile(path, f)
	}
	var losses []float64 // of each pass, in the mean
	for range c.Epochs {
		sum := 0.0
		for _, i := range rng.Perm(len(batches)) {
			if ctx.Err() != nil {
				return nil, c.interrupted(len(losses), save)
			}
			loss, err := t.Step(batches[i])
			if err != nil {
				return nil, err
			}
			sum += loss
		}
		losses = append(losses, sum/float64(len(batches)))
	}
	res := &forecasterResult{Model: c.out, Episodes: len(batches) * c.Batch, First: losses[0], Last: losses[len(losses)-1]}
	if res.HeldOut, err = c.heldOut(ctx, spec, t); err != nil {
		if ctx.Err() != nil {
			err = c.interrupted(len(losses), save)
		}
		return nil, err
	}
	return res, save(c.out)
}

// interrupted saves what the passes have trained, beside the file of a whole training, and returns the
// interrupt.
func (c *forecasterConfig) interrupted(passes int, save func(path string) error) error {
	if passes == 0 {
		return fmt.Errorf("%w in the first of %d passes: nothing is saved, and the same command starts over", cli.ErrInterrupted, c.Epochs)
	}
	ext := filepath.Ext(c.out)
	path := strings.TrimSuffix(c.out, ext) + "_interrupted" + ext
	if err := save(path); err != nil {
		return errors.Join(fmt.Errorf("%w after %d of %d passes", cli.ErrInterrupted, passes, c.Epochs), err)
	}
	return fmt.Errorf("%w after %d of %d passes: what they trained is in %s; the same command starts over", cli.ErrInterrupted, passes, c.Epochs, path)
}

// heldOut returns the loss on a batch of held-out episodes.
func (c *forecasterConfig) heldOut(ctx context.Context, spec *envs.Spec, t *forecast.Trainer) (float64, error) {
	v, err := envs.NewVec(spec, c.Batch, envs.VecOptions{Options: play.HeldOut(spec, c.kwargs, nil), Autoreset: envs.SameStep})
	if err != nil {
		return 0, err
	}
	defer v.Close()
	p, err := baseline.New(v, forecasterTeacher, c.seed)
	if err != nil {
		return 0, err
	}
	seed := uint64(play.EvalSeed)
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		return 0, err
	}
	e, _, err := forecast.Observe(ctx, v, p, b)
	if err != nil {
		return 0, err
	}
	return t.Loss(e)
}
