package vpa

import "github.com/kubernasium/kubernasium/envs"

func init() {
	for _, v := range []struct {
		id, doc   string
		discrete  bool
		baselines []envs.Baseline
	}{
		{"k8s/VerticalPodAutoscaler-v0", "Which CPU and memory a pod requests: bounds and targets, as a recommender gives them.", false, baselinesOf(rules, false)},
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
