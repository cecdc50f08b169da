// Package kwok holds the commands below `trainer kwok`: control planes, schedulers and recommenders on a
// Kubernetes API server.
package kwok

import (
	"github.com/spf13/cobra"
)

// New returns the command kwok.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kwok",
		Short: "A real Kubernetes API server with simulated nodes",
	}
	cmd.AddCommand(newKwokUp())
	cmd.AddCommand(newKwokParity())
	cmd.AddCommand(newKwokRunSim())
	cmd.AddCommand(newKwokCleanCluster())
	cmd.AddCommand(newKwokTop())
	cmd.AddCommand(newKwokKubeconfig())
	cmd.AddCommand(newKwokVPA())
	cmd.AddCommand(newKwokSchedule())
	cmd.AddCommand(newKwokQuality())
	cmd.AddCommand(newKwokShadow())
	cmd.AddCommand(newKwokProfile())
	cmd.AddCommand(newKwokLoad())
	cmd.AddCommand(newKwokRecord())
	cmd.AddCommand(newKwokReplay())
	return cmd
}
