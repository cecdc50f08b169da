package main

import "github.com/spf13/cobra"

func newGang() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gang",
		Short: "Bulk-synchronous jobs on a Kubernetes API server",
	}
	cmd.AddCommand(newGangRun())
	return cmd
}
