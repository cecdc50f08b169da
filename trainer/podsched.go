package main

import "github.com/spf13/cobra"

func newPodsched() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "podsched",
		Short: "Pod scheduling: topologies, workloads simulated, decisions explained",
	}
	cmd.AddCommand(newPodschedTopology())
	cmd.AddCommand(newPodschedExplain())
	cmd.AddCommand(newPodschedSimulate())
	return cmd
}
