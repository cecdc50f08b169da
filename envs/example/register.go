package example

import "github.com/kubernasium/kubernasium/envs"

func init() {
	envs.Register(&envs.Spec{
		ID:          "example/Packing-v0",
		Doc:         "Pack pods on few nodes.",
		Open:        envs.Open(DefaultOptions, check, newTask),
		Options:     new(DefaultOptions()),
		RenderModes: []string{"ansi", "rgb_array"},
		Info: []envs.Column{
			{Name: "nodes_used", DType: "int64", Doc: "nodes that run a pod"},
			{Name: "pending", DType: "int64", Doc: "pods that stay pending"},
		},
		Metrics:   []envs.Metric{{Column: "nodes_used", Lower: true}, {Column: "pending", Lower: true}},
		Baselines: baselines,
	})
}
