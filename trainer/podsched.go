package main

import "github.com/spf13/cobra"

func newPodsched() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "podsched",
		Short: "Pod scheduling: topologies of clusters, decisions explained",
	}
	cmd.AddCommand(newPodschedTopology())
	cmd.AddCommand(newPodschedExplain())
	return cmd
}
