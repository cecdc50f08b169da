package gang

import "github.com/kubernasium/kubernasium/envs"

func init() {
	envs.Register(&envs.Spec{
		ID:          "k8s/GangWindow-v0",
		Doc:         "When to re-plan the CPU shares of a bulk-synchronous job, and for which window.",
		Open:        envs.Open(DefaultOptions, newSource, newTask),
		Options:     new(DefaultOptions()),
		HeldOut:     map[string]any{"split": SplitHeldOut},
		Validation:  map[string]any{"split": SplitValidation},
		RenderModes: []string{"ansi", "rgb_array"},
		Info:        InfoColumns,
		Metrics:     Metrics,
		Baselines:   baselines,
	})
}
