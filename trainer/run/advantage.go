package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/advantage"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// AdvantageResult is the result of [Advantage.Run].
type AdvantageResult struct {
	Env       string         `json:"env"`
	EnvKwargs map[string]any `json:"env_kwargs"`
	Decisions int            `json:"decisions"`
	Explained float64        `json:"explained"` // part of the variance of gains in episodes that were not learned from
	Gain      float64        `json:"gain"`      // of the policy's choices over the heuristic's there, for each decision
	GainError float64        `json:"gain_error"`
	Model     string         `json:"model"`
}

// Advantage trains a node scorer by what nodes gain in rollouts, and writes it as a model of PPO.
type Advantage struct {
	advantage.Config
	Kwargs []string // options key:value of the environment
	Out    string   // file of the model
}

// Run trains. It writes a line after each round to progress.
func (a *Advantage) Run(ctx context.Context, progress io.Writer, command string) (AdvantageResult, error) {
	res := AdvantageResult{Env: a.Env, Model: a.Out}
	if a.Out == "" {
		return res, errors.New("no file: give --out")
	}
	var err error
	if a.EnvKwargs, err = cli.ParseKwargs("env-kwargs", a.Kwargs); err != nil {
		return res, err
	}
	res.EnvKwargs = a.EnvKwargs
	net, r, err := a.Train(ctx, func(round int, r advantage.Report) {
		fmt.Fprintf(progress, "round %d of %d: %d decisions; %.1f %% of the variance of gains explained; choices gain %.4f ± %.4f each\n",
			round+1, a.Rounds, r.Decisions, 100*r.Explained, r.Gain, r.Error)
	})
	if err != nil {
		return res, err
	}
	res.Decisions, res.Explained, res.Gain, res.GainError = r.Decisions, r.Explained, r.Gain, r.Error
	network, policy, info, err := a.Policy(net)
	if err != nil {
		return res, err
	}
	cfg := ppo.Defaults()
	cfg.Network, cfg.TotalTimesteps = network, 1 // PPO makes no step
	learner, err := ppo.New(cfg, info, agents.Given(policy), a.Seed)
	if err != nil {
		return res, err
	}
	return res, a.write(learner, command)
}

// write writes the model with the command that trained it.
func (a *Advantage) write(learner *ppo.Learner, command string) error {
	var file bytes.Buffer
	if err := learner.Save(&file); err != nil {
		return err
	}
	f, err := models.Read(&file)
	if err != nil {
		return err
	}
	f.Meta.Metadata = map[string]string{cli.CommandKey: command}
	return models.WriteFile(a.Out, f)
}

// Text says in a line what was trained, in the given number of episodes.
func (r *AdvantageResult) Text(episodes int) string {
	return fmt.Sprintf("%s: %d decisions of %d episodes; in those not learned from, %.1f %% of the variance of gains explained and %.4f ± %.4f gained by a choice\n",
		r.Model, r.Decisions, episodes, 100*r.Explained, r.Gain, r.GainError)
}
