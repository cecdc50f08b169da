// Package gang holds the commands below `trainer gang`: forecasts, profiles and planners of bulk-synchronous jobs,
// and a run of one on an API server.
package gang

import (
	"github.com/spf13/cobra"
)

// gangEnv is the environment of the commands of the group.
const gangEnv = "k8s/GangWindow-v0"

// New returns the command gang.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gang",
		Short: "Bulk-synchronous jobs: their forecasts, profiles and planners, and a run on a Kubernetes API server",
	}
	cmd.AddCommand(newGangForecast(), newGangProfile(), newGangRegret(), newGangRun())
	return cmd
}
