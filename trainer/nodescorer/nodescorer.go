// Package nodescorer makes the commands that train node scorers by gains of rollouts ([advantage.Config]).
package nodescorer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/advantage"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// Result is the JSON of the commands.
type Result struct {
	Env       string         `json:"env"`
	EnvKwargs map[string]any `json:"env_kwargs"`
	Decisions int            `json:"decisions"`
	Explained float64        `json:"explained"` // part of the variance of gains in episodes that were not learned from
	Gain      float64        `json:"gain"`      // of the policy's choices over the heuristic's there, for each decision
	GainError float64        `json:"gain_error"`
	Model     string         `json:"model"`
}

// training is a training with its command line.
type training struct {
	advantage.Config
	out string
}

// Command completes cmd, which has its texts, to train by c, whose domain may have flags of its own. weight is the help of
// --weight.
func Command(cmd *cobra.Command, c advantage.Config, weight string) *cobra.Command {
	t := training{Config: c}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		res, err := t.run(cmd.Context(), cmd.ErrOrStderr(), cli.CommandLine(cmd))
		if err != nil {
			return err
		}
		return cli.Printf(cmd, res, "%s: %d decisions of %d episodes; in those not learned from, %.1f %% of the variance of gains explained and %.4f ± %.4f gained by a choice\n",
			res.Model, res.Decisions, t.Rounds*t.Episodes, 100*res.Explained, res.Gain, res.GainError)
	}
	f := cmd.Flags()
	f.StringVar(&t.Env, "env", t.Env, "id of the environment")
	cli.KwargsVar(f, &t.EnvKwargs, "env-kwargs", "option key:value of the environment (repeat)")
	f.StringVar(&t.out, "out", "", "file of the model")
	f.Uint64Var(&t.Seed, "seed", t.Seed, "random seed")
	f.Float64Var(&t.Density, "density", t.Density, "sampled part of the decisions")
	f.IntVar(&t.Rounds, "rounds", t.Rounds, "rounds of episodes; all but the first are the policy's own")
	f.IntVar(&t.Episodes, "episodes", t.Episodes, "episodes of a round, whose decisions are sampled")
	f.IntVar(&t.Futures, "futures", t.Futures, "futures played for each node")
	f.IntVar(&t.Steps, "steps", t.Steps, "gradient steps after each round")
	f.Float64Var(&t.Weight, "weight", t.Weight, weight)
	return cmd
}

// run trains. It writes a line after each round to progress.
func (t *training) run(ctx context.Context, progress io.Writer, command string) (Result, error) {
	res := Result{Env: t.Env, EnvKwargs: t.EnvKwargs, Model: t.out}
	if t.out == "" {
		return res, errors.New("no file: give --out")
	}
	if err := prepare(t.out); err != nil {
		return res, err
	}
	net, r, err := t.Train(ctx, func(round int, r advantage.Report) {
		fmt.Fprintf(progress, "round %d of %d: %d decisions; %.1f %% of the variance of gains explained; choices gain %.4f ± %.4f each\n",
			round+1, t.Rounds, r.Decisions, 100*r.Explained, r.Gain, r.Error)
	})
	if err != nil {
		return res, err
	}
	res.Decisions, res.Explained, res.Gain, res.GainError = r.Decisions, r.Explained, r.Gain, r.Error
	network, policy, info, err := t.Policy(net)
	if err != nil {
		return res, err
	}
	cfg := ppo.Defaults()
	cfg.Network, cfg.TotalTimesteps = network, 1 // PPO makes no step
	learner, err := ppo.New(cfg, info, agents.Given(policy), t.Seed)
	if err != nil {
		return res, err
	}
	return res, t.write(learner, command)
}

// prepare makes the folder of the model. What would fail after the training fails here.
func prepare(out string) error {
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return fmt.Errorf("--out %s is a folder, want a file", out)
	}
	return models.MkdirAll(filepath.Dir(out))
}

// write writes the model with the command that trained it.
func (t *training) write(learner *ppo.Learner, command string) error {
	var file bytes.Buffer
	if err := learner.Save(&file); err != nil {
		return err
	}
	f, err := models.Read(&file)
	if err != nil {
		return err
	}
	f.Meta.Metadata = map[string]string{cli.CommandKey: command}
	return models.WriteFile(t.out, f)
}
