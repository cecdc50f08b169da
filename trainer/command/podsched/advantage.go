package podsched

import (
	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/advantage"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/run"
)

func newPodschedAdvantage() *cobra.Command {
	c, d := advantage.GPUDefaults()
	a := run.Advantage{Config: c}
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
			res, err := a.Run(cmd.Context(), cmd.ErrOrStderr(), cli.CommandLine(cmd))
			if err != nil {
				return err
			}
			return cli.Printf(cmd, res, "%s", res.Text(a.Rounds*a.Episodes))
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.Env, "env", a.Env, "id of the environment of GPU scheduling")
	f.StringArrayVar(&a.Kwargs, "env-kwargs", nil, "option key:value of the environment (repeat)")
	f.StringVar(&a.Out, "out", "", "file of the model")
	f.Uint64Var(&a.Seed, "seed", a.Seed, "random seed")
	f.Float64Var(&a.Density, "density", a.Density, "part of the decisions that are looked at")
	f.IntVar(&a.Rounds, "rounds", a.Rounds, "rounds of episodes; all but the first are the policy's own")
	f.IntVar(&a.Episodes, "episodes", a.Episodes, "episodes of a round, whose decisions are looked at")
	f.IntVar(&a.Futures, "futures", a.Futures, "futures played for each node")
	f.IntVar(&a.Steps, "steps", a.Steps, "gradient steps after each round")
	f.Float64Var(&a.Weight, "weight", a.Weight, "GPUs, in timed dynamics thousands of seconds, for a point of WeightedFGD's score")
	f.Float64SliceVar(&d.Loads, "until", d.Loads, "GPUs requested, over those of the nodes, at which allocations count, in the mean; episodes and futures end at the last")
	f.DurationVar(&d.Horizon, "horizon", d.Horizon, "with dynamics:timed, the length of futures, in which what pods wait counts in place of allocations")
	return cmd
}
