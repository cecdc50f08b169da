// Package gang holds the commands below `trainer gang`: forecasts and profiles of bulk-synchronous jobs,
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
		Short: "Bulk-synchronous jobs: their forecasts and profiles, and a run on a Kubernetes API server",
	}
	cmd.AddCommand(newGangForecast(), newGangProfile(), newGangRun())
	return cmd
}
