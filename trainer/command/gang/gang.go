// Package gang holds the commands below `trainer gang`: forecasts, profiles and planners of bulk-synchronous
// jobs, and runs of such jobs on an API server.
package gang

import (
	"github.com/spf13/cobra"
)

// gangEnv is the environment of this group's commands.
const gangEnv = "k8s/GangWindow-v0"

// New returns the command gang.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gang",
		Short: "Bulk-synchronous jobs: their forecasts, profiles and planners, and runs on a Kubernetes API server",
	}
	cmd.AddCommand(newGangForecast(), newGangProfile(), newGangRegret(), newGangRun())
	return cmd
}
