package main

import "github.com/spf13/cobra"

// newPodsched returns the group of commands. Those that train are made of train, which returns the
// command train and the arguments that it reads its flags into.
func newPodsched(train func() (*cobra.Command, *trainConfig)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "podsched",
		Short: "Pod scheduling: agents trained, workloads of Kubernetes YAML simulated, topologies of clusters, decisions explained",
	}
	cmd.AddCommand(newPodschedTopology())
	cmd.AddCommand(newPodschedExplain())
	cmd.AddCommand(newPodschedSimulate())
	for _, a := range podschedAgents {
		cmd.AddCommand(newPodschedAgent(a, train))
	}
	return cmd
}
