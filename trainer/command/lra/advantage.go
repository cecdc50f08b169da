package lra

import (
	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/advantage"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/run"
)

func newLRAAdvantage() *cobra.Command {
	c, d := advantage.OnlineDefaults()
	a := run.Advantage{Config: c}
	cmd := &cobra.Command{
		Use:   "advantage",
		Short: "Train a node scorer of online placement by what nodes gain in rollouts of the index",
		Long: `Train a node scorer of k8s/LRAOnline-v0 by what nodes gain in rollouts of the index.

In training episodes, the container of each decision is placed on several nodes, and the index plays equal futures from there. A
network learns by least squares how much more throughput each node gains. The policy takes the node with the highest sum of that and
of the weighted index, and is written as a model of PPO. Further rounds learn from the policy's own episodes, too.`,
		Example: `  trainer lra advantage --out advantage.safetensors
  trainer lra advantage --out published.safetensors --env-kwargs table:../shared/data/metis/node_table_true_6435.csv --seed 2`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := a.Run(cmd.Context(), cmd.ErrOrStderr(), cli.CommandLine(cmd))
			if err != nil {
				return err
			}
			return cli.Printf(cmd, res, "%s", res.Text(a.Rounds*a.Episodes))
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.Env, "env", a.Env, "id of the environment")
	f.StringArrayVar(&a.Kwargs, "env-kwargs", nil, "option key:value of the environment (repeat)")
	f.StringVar(&a.Out, "out", "", "file of the model")
	f.Uint64Var(&a.Seed, "seed", a.Seed, "random seed")
	f.Float64Var(&a.Density, "density", a.Density, "part of the decisions that are looked at")
	f.IntVar(&a.Rounds, "rounds", a.Rounds, "rounds of episodes; all but the first are the policy's own")
	f.IntVar(&a.Episodes, "episodes", a.Episodes, "episodes of a round, whose decisions are looked at")
	f.IntVar(&a.Futures, "futures", a.Futures, "futures played for each node")
	f.IntVar(&a.Steps, "steps", a.Steps, "gradient steps after each round")
	f.Float64Var(&a.Weight, "weight", a.Weight, "throughput, times a mean lifetime, for an index of 1")
	f.Float64Var(&d.Horizon, "horizon", d.Horizon, "length of futures in mean lifetimes of a container")
	return cmd
}
