package main

import "github.com/spf13/cobra"

func newPodsched() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "podsched",
		Short: "Pod scheduling: agents trained, workloads of Kubernetes YAML simulated, topologies of clusters, decisions explained",
	}
	cmd.AddCommand(newPodschedTopology())
	cmd.AddCommand(newPodschedExplain())
	cmd.AddCommand(newPodschedSimulate())
	for _, a := range podschedAgents {
		cmd.AddCommand(newPodschedAgent(a))
	}
	return cmd
}
