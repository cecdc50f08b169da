package main

import "github.com/spf13/cobra"

func newPodsched() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "podsched",
		Short: "Pod scheduling: workloads of Kubernetes YAML simulated",
	}
	cmd.AddCommand(newPodschedSimulate())
	return cmd
}
