package main

import "github.com/spf13/cobra"

func newPodsched() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "podsched",
		Short: "Pod scheduling: workloads of Kubernetes YAML simulated, topologies of clusters, decisions explained",
	}
	cmd.AddCommand(newPodschedTopology())
	cmd.AddCommand(newPodschedExplain())
	cmd.AddCommand(newPodschedSimulate())
	return cmd
}
