package main

import "github.com/spf13/cobra"

func newKwok() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kwok",
		Short: "A real Kubernetes API server with simulated nodes",
	}
	cmd.AddCommand(newKwokParity())
	return cmd
}
