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

	"github.com/kubernasium/kubernasium/agents/forecast"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// forecasterEnv is the environment of the forecaster.
const forecasterEnv = "k8s/VerticalPodAutoscaler-v0"

// forecasterConfig holds the arguments of `vpa forecaster`.
type forecasterConfig struct {
	forecast.Config
	kwargs map[string]any
	seed   uint64
	out    string
}

// forecasterResult is the JSON of `vpa forecaster`.
type forecasterResult struct {
	Model    string  `json:"model"`
	Episodes int     `json:"episodes"`
	First    float64 `json:"first_loss"` // mean of the first pass
	Last     float64 `json:"last_loss"`  // mean of the last pass
	HeldOut  float64 `json:"held_out_loss"`
}

func newVPAForecaster() *cobra.Command {
	c := forecasterConfig{Config: forecast.Defaults()}
	cmd := &cobra.Command{
		Use:   "forecaster",
		Short: "Train the LSTM forecaster, a recommender that trainer eval and compare play as a model",
		Long: `Train the LSTM forecaster, a recommender that trainer eval and compare play as a model.

It learns quantiles of the usage of the next hours on training workloads, and nothing from rewards.
The requested quantile should fit the weighting: 0.2, 0.5, 0.8 for slack_heavy, equal, risk_heavy.`,
		Example: `  trainer vpa forecaster --out models/pretrained/k8s-VerticalPodAutoscaler-v0/lstm_forecaster.safetensors
  trainer compare --model models/pretrained/k8s-VerticalPodAutoscaler-v0/lstm_forecaster.safetensors`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.kwargs = cli.MergeKwargs(map[string]any{"encoding": "upstream", "safety": "memory", "hold": 30}, c.kwargs)
			if c.Episodes < 1 {
				return fmt.Errorf("--episodes %d, want at least 1", c.Episodes)
			}
			res, err := c.train(cmd.Context(), cli.CommandLine(cmd))
			if err != nil {
				return err
			}
			return cli.Printf(cmd, res, "%d episodes: pinball loss %.4f in the first pass, %.4f in the last, %.4f on held-out workloads\n%s\n",
				res.Episodes, res.First, res.Last, res.HeldOut, res.Model)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.out, "out", "o", "lstm_forecaster.safetensors", "model file to write")
	f.Uint64Var(&c.seed, "seed", 1, "random seed of weights and episodes")
	f.IntVar(&c.Episodes, "episodes", c.Episodes, "training episodes")
	f.Float64Var(&c.Quantile, "quantile", c.Quantile, "quantile of CPU usage to request")
	cli.KwargsVar(f, &c.kwargs, "env-kwargs", "option key:value of the environment (repeat)")
	return cmd
}

// train trains the network and writes the model.
func (c *forecasterConfig) train(ctx context.Context, command string) (*forecasterResult, error) {
	spec, err := envs.Lookup(forecasterEnv)
	if err != nil {
		return nil, err
	}
	t := forecast.Training{Config: c.Config, Spec: spec, Kwargs: c.kwargs, Seed: c.seed, HeldOutSeed: play.EvalSeed, RNG: rand.New(pcg.New(c.seed ^ play.NetworkStream))}
	res, err := t.Run(ctx)
	if res == nil {
		return nil, err
	}
	res.File.Meta.Metadata = map[string]string{cli.CommandKey: command}
	if err != nil {
		return nil, c.interrupted(res)
	}
	return &forecasterResult{Model: c.out, Episodes: res.Episodes, First: res.Losses[0], Last: res.Losses[len(res.Losses)-1], HeldOut: res.HeldOut}, write(c.out, res.File)
}

func write(path string, f models.File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return models.WriteFile(path, f)
}

// interrupted saves the network that the passes so far have trained, beside the file of a complete training,
// and returns the interrupt.
func (c *forecasterConfig) interrupted(res *forecast.Trained) error {
	passes := len(res.Losses)
	if passes == 0 {
		return fmt.Errorf("%w in the first of %d passes: nothing is saved, and the same command starts over", cli.ErrInterrupted, c.Epochs)
	}
	ext := filepath.Ext(c.out)
	path := strings.TrimSuffix(c.out, ext) + "_interrupted" + ext
	if err := write(path, res.File); err != nil {
		return errors.Join(fmt.Errorf("%w after %d of %d passes", cli.ErrInterrupted, passes, c.Epochs), err)
	}
	return fmt.Errorf("%w after %d of %d passes: what they trained is in %s; the same command starts over", cli.ErrInterrupted, passes, c.Epochs, path)
}
