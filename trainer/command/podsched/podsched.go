// Package podsched holds the commands below `trainer podsched`: shortcuts for training, simulations, topologies
// and explanations of decisions.
package podsched

import (
	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/trainer/run"
)

// New returns the group of commands. It builds the training shortcuts from train, which returns the command
// train and the configuration that its flags set.
func New(train func() (*cobra.Command, *run.Config)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "podsched",
		Short: "Pod scheduling: train agents, simulate and synthesize workloads, add topologies, explain decisions",
	}
	cmd.AddCommand(newPodschedTopology())
	cmd.AddCommand(newPodschedExplain())
	cmd.AddCommand(newPodschedSimulate())
	cmd.AddCommand(newPodschedSynthesize())
	cmd.AddCommand(newPodschedRecord())
	cmd.AddCommand(newPodschedAdvantage())
	cmd.AddCommand(newPodschedPooled())
	for _, a := range podschedAgents {
		cmd.AddCommand(newPodschedAgent(a, train))
	}
	return cmd
}
