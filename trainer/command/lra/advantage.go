package lra

import (
	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/advantage"
	"github.com/kubernasium/kubernasium/trainer/nodescorer"
)

func newLRAAdvantage() *cobra.Command {
	c, d := advantage.OnlineDefaults()
	cmd := nodescorer.Command(&cobra.Command{
		Use:   "advantage",
		Short: "Train a node scorer of online placement by what nodes gain in rollouts of the index",
		Long: `Train a node scorer of k8s/LRAOnline-v0 by what nodes gain in rollouts of the index.

In training episodes, the container of each decision is placed on several nodes, and the index plays equal futures from there. A
network learns by least squares how much more throughput each node gains. The policy takes the node with the highest sum of that and
of the weighted score of the baseline index_ahead, and is written as a model of PPO. Further rounds learn from the policy's own
episodes, too.`,
		Example: `  trainer lra advantage --out advantage.safetensors
  trainer lra advantage --out published.safetensors --env-kwargs table:../shared/data/metis/node_table_true_6435.csv --seed 2`,
	}, c, "throughput, times a mean lifetime, for a score of 1")
	cmd.Flags().Float64Var(&d.Horizon, "horizon", d.Horizon, "length of futures in mean lifetimes of a container")
	return cmd
}
