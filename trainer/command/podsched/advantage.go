package podsched

import (
	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/advantage"
	"github.com/kubernasium/kubernasium/trainer/nodescorer"
)

func newPodschedAdvantage() *cobra.Command {
	c, d := advantage.GPUDefaults()
	cmd := nodescorer.Command(&cobra.Command{
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
	}, c, "GPUs, in timed dynamics thousands of seconds, for a point of WeightedFGD's score")
	f := cmd.Flags()
	f.Float64SliceVar(&d.Loads, "until", d.Loads, "GPUs requested, over those of the nodes, at which allocations count, in the mean; episodes and futures end at the last")
	f.DurationVar(&d.Horizon, "horizon", d.Horizon, "with dynamics:timed, the length of futures, in which what pods wait counts in place of allocations")
	return cmd
}
