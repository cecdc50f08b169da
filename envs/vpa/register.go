package vpa

import "github.com/kubernasium/kubernasium/envs"

func init() {
	for _, v := range []struct {
		id, doc   string
		discrete  bool
		baselines []envs.Baseline
	}{
		{"k8s/VerticalPodAutoscaler-v0", "Which CPU and memory a pod requests: bounds and targets, as a recommender gives them.", false, baselines},
		{"k8s/VerticalPodAutoscalerDiscrete-v0", "Which CPU and memory a pod requests: by which factor to scale each.", true, discreteBaselines()},
	} {
		envs.Register(&envs.Spec{
			ID:          v.id,
			Doc:         v.doc,
			Open:        envs.Open(DefaultOptions, func(o Options) (*source, error) { return newSource(o, v.discrete) }, newTask),
			Options:     new(DefaultOptions()),
			HeldOut:     map[string]any{"split": SplitHeldOut},
			RenderModes: []string{"ansi", "rgb_array"},
			StepNanos:   540,
			Info:        infoColumns,
			Metrics: []envs.Metric{
				{Column: "cost", Unit: "h", Lower: true}, {Column: "slack_pct", Unit: "%", Lower: true},
				{Column: "throttled_pct", Unit: "%", Lower: true}, {Column: "ooms", Lower: true}, {Column: "evictions", Lower: true},
			},
			Baselines: v.baselines,
		})
	}
}

var infoColumns = []envs.Column{
	{Name: "cost", DType: "float64", Doc: "weighted costs since the reset, in hours of the workload's mean demand: minus the return"},
	{Name: "slack_pct", DType: "float64", Doc: "of what was requested since the reset, how much was not used, with memory at its price"},
	{Name: "throttled_pct", DType: "float64", Doc: "of the CPU demanded since the reset, how much was refused at the limit"},
	{Name: "ooms", DType: "int64", Doc: "OOM kills since the reset"},
	{Name: "evictions", DType: "int64", Doc: "evictions since the reset"},
	{Name: "resizes", DType: "int64", Doc: "resizes in place since the reset"},
	{Name: "restarts", DType: "int64", Doc: "starts of containers since the reset: OOM kills, evictions, resizes that restart"},
	{Name: "down_pct", DType: "float64", Doc: "of the CPU demanded since the reset, how much came while the container was down"},
	{Name: "slack_cost", DType: "float64", Doc: "underrun term of the step, unweighted, in hours of the mean demand"},
	{Name: "overrun_cost", DType: "float64", Doc: "overrun term of the step, likewise"},
	{Name: "change_cost", DType: "float64", Doc: "change term of the step, likewise"},
	{Name: "slack_cost_total", DType: "float64", Doc: "sum of slack_cost since the reset"},
	{Name: "overrun_cost_total", DType: "float64", Doc: "sum of overrun_cost since the reset"},
	{Name: "change_cost_total", DType: "float64", Doc: "sum of change_cost since the reset"},
	{Name: "slack_core_h", DType: "float64", Doc: "integral of CPU requested and not used since the reset"},
	{Name: "slack_gib_h", DType: "float64", Doc: "integral of memory requested and not used since the reset"},
	{Name: "overrun_core_h", DType: "float64", Doc: "integral of CPU used above the request since the reset"},
	{Name: "overrun_gib_h", DType: "float64", Doc: "integral of memory used above the request since the reset"},
	{Name: "request_core_h", DType: "float64", Doc: "integral of CPU requested since the reset"},
	{Name: "request_gib_h", DType: "float64", Doc: "integral of memory requested since the reset"},
	{Name: "lost_core_h", DType: "float64", Doc: "work that OOM kills lost since the reset"},
	{Name: "repaired", DType: "bool", Doc: "bounds of the last action were out of order and moved to the target"},
	{Name: "capped", DType: "bool", Doc: "the last action's target lay outside policy or LimitRange"},
	{Name: "down", DType: "int64", Doc: "pods that do not serve at the end of the step"},
}
