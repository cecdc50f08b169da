package podsched

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/advantage"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// advantageResult is the JSON of `podsched advantage`.
type advantageResult struct {
	Env       string         `json:"env"`
	EnvKwargs map[string]any `json:"env_kwargs"`
	Decisions int            `json:"decisions"`
	Explained float64        `json:"explained"` // part of the variance of gains in episodes that were not learned from
	Model     string         `json:"model"`
}

func newPodschedAdvantage() *cobra.Command {
	c := advantage.Defaults()
	var kwargs []string
	var out string
	cmd := &cobra.Command{
		Use:   "advantage",
		Short: "Train a node scorer of GPU scheduling by what nodes gain in rollouts of WeightedFGD",
		Long: `Train a node scorer of GPU scheduling by what nodes gain in rollouts of WeightedFGD.

In training episodes, the pods of some decisions are placed on several nodes, and WeightedFGD plays equal futures from there. A network
learns by least squares how many GPUs more each node gains. The policy takes the node with the highest sum of that and of the
weighted score of WeightedFGD, and is written as a model of PPO. In timed dynamics it learns how many thousands of seconds less pods
wait in sum.`,
		Example: `  trainer podsched advantage --out advantage.safetensors
  trainer podsched advantage --out until_130.safetensors --until 1.3 --seed 2
  trainer podsched advantage --out timed.safetensors --env-kwargs dynamics:timed --density 0.02 --futures 4`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return errors.New("no file: give --out")
			}
			var err error
			if c.EnvKwargs, err = cli.ParseKwargs("env-kwargs", kwargs); err != nil {
				return err
			}
			decisions, err := c.Collect(cmd.Context())
			if err != nil {
				return err
			}
			net, explained, err := c.Fit(cmd.Context(), decisions)
			if err != nil {
				return err
			}
			network, policy, info, err := c.Policy(net)
			if err != nil {
				return err
			}
			cfg := ppo.Defaults()
			cfg.Network, cfg.TotalTimesteps = network, 1 // PPO makes no step
			learner, err := ppo.New(cfg, info, agents.Given(policy), c.Seed)
			if err != nil {
				return err
			}
			if err := writeAdvantage(out, learner, cli.CommandLine(cmd)); err != nil {
				return err
			}
			res := advantageResult{Env: c.Env, EnvKwargs: c.EnvKwargs, Decisions: len(decisions), Explained: explained, Model: out}
			return cli.Printf(cmd, res, "%s: %d decisions of %d episodes; %.1f %% of the variance of gains explained in episodes not learned from\n",
				out, len(decisions), c.Episodes, 100*explained)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Env, "env", c.Env, "id of the environment of GPU scheduling")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat)")
	f.StringVar(&out, "out", "", "file of the model")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "random seed")
	f.Float64SliceVar(&c.Loads, "until", c.Loads, "GPUs requested, over those of the nodes, at which allocations count, in the mean; episodes and futures end at the last")
	f.DurationVar(&c.Horizon, "horizon", c.Horizon, "with dynamics:timed, the length of futures, in which what pods wait counts in place of allocations")
	f.Float64Var(&c.Density, "density", c.Density, "part of the decisions that are looked at")
	f.IntVar(&c.Episodes, "episodes", c.Episodes, "episodes whose decisions are looked at")
	f.IntVar(&c.Futures, "futures", c.Futures, "futures played for each node")
	f.IntVar(&c.Steps, "steps", c.Steps, "gradient steps")
	f.Float64Var(&c.Weight, "weight", c.Weight, "GPUs, in timed dynamics thousands of seconds, for a point of WeightedFGD's score")
	return cmd
}

// writeAdvantage writes the model with the command that trained it.
func writeAdvantage(path string, learner *ppo.Learner, command string) error {
	var file bytes.Buffer
	if err := learner.Save(&file); err != nil {
		return err
	}
	f, err := models.Read(&file)
	if err != nil {
		return err
	}
	f.Meta.Metadata = map[string]string{cli.CommandKey: command}
	return models.WriteFile(path, f)
}
