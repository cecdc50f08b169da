package balance

import "github.com/kubernasium/kubernasium/envs"

func init() {
	envs.Register(&envs.Spec{
		ID:          "k8s/PodBalance-v0",
		Doc:         "Place a stream of deployments on a small cluster: balance, spread over racks, or pack.",
		Open:        envs.Open(DefaultOptions, newSource, newTask),
		Live:        newLive,
		Options:     new(DefaultOptions()),
		StepNanos:   1000,
		RenderModes: []string{"ansi", "rgb_array"},
		Info:        infoColumns,
		Metrics:     metrics,
		Baselines:   baselines,
	})
}
