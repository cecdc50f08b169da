package main

import "github.com/spf13/cobra"

func newPodsched() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "podsched",
		Short: "Prepare and play pod scheduling: topologies",
	}
	cmd.AddCommand(newPodschedTopology())
	return cmd
}
