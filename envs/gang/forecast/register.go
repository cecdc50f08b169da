package forecast

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang"
)

func init() {
	envs.Register(&envs.Spec{
		ID:          "k8s/GangForecast-v0",
		Doc:         "Correct the forecasts that the planner of a bulk-synchronous job plans its CPU shares with.",
		Open:        envs.Open(DefaultOptions, newMaker, newTask),
		Options:     new(DefaultOptions()),
		HeldOut:     map[string]any{"split": gang.SplitHeldOut},
		Validation:  map[string]any{"split": gang.SplitValidation},
		RenderModes: []string{"ansi", "rgb_array"},
		Info:        gang.InfoColumns,
		Metrics:     gang.Metrics,
		Baselines:   baselines,
	})
}
