package gpu

import "github.com/kubernasium/kubernasium/envs"

func init() {
	register("k8s/GPUPodScheduling-v0", "Place pods one at a time onto nodes with GPUs that can be shared.", DefaultOptions, newSource)
	register("k8s/GPUPodScheduling-v1", "Place pods one at a time onto nodes with GPUs that can be shared; of the pods to come, their law is known.", DefaultOptions, newDeclaredSource)
	register("k8s/GPUPodScheduling-v2", "Place pods one at a time onto nodes with GPUs that can be shared; of the pods to come, their law is known, and wholly free GPUs are counted.",
		wholeGPUOptions, newDeclaredSource)
}

func register(id, doc string, defaults func() Options, load func(Options) (*source, error)) {
	envs.Register(&envs.Spec{
		ID:          id,
		Doc:         doc,
		Open:        envs.Open(defaults, load, newTask),
		Live:        newLive(defaults),
		Options:     new(defaults()),
		HeldOut:     map[string]any{"split": SplitHeldOut},
		StepNanos:   8000,
		RenderModes: []string{"ansi", "rgb_array"},
		Info:        infoColumns,
		Metrics: []envs.Metric{
			{Column: "alloc_pct", Unit: "%"}, {Column: "alloc_80_pct", Unit: "%"}, {Column: "alloc_100_pct", Unit: "%"},
			{Column: "frag_pct", Unit: "%", Lower: true}, {Column: "failed", Lower: true},
			{Column: "waiting_time_s", Unit: "s", Lower: true}, {Column: "completion_time_s", Unit: "s", Lower: true},
			{Column: "utilisation_pct", Unit: "%"},
		},
		// At the end of a timed episode hardly a pod runs, so that what is allocated then says nothing.
		RankBy: func(opts map[string]any) string {
			if opts["dynamics"] == DynamicsTimed {
				return "waiting_time_s"
			}
			return ""
		},
		Baselines: baselines(),
	})
}
