package vpa

import "github.com/kubernasium/kubernasium/envs"

func init() {
	alone := func(discrete bool) func(map[string]any) (envs.Maker, error) {
		return envs.Open(DefaultOptions, func(o Options) (*source, error) { return newSource(o, discrete) }, newTask)
	}
	for _, s := range []envs.Spec{
		{ID: "k8s/VerticalPodAutoscaler-v0", Doc: "Which CPU and memory a pod requests: bounds and targets, as a recommender gives them.",
			Open: alone(false), Options: new(DefaultOptions()), StepNanos: 540, Info: infoColumns,
			Baselines: continuousBaselines()},
		{ID: "k8s/VerticalPodAutoscalerDiscrete-v0", Doc: "Which CPU and memory a pod requests: by which factor to scale each.",
			Open: alone(true), Options: new(DefaultOptions()), StepNanos: 540, Info: infoColumns, Baselines: discreteBaselines()},
		{ID: "k8s/VerticalPodAutoscaler-v1", Doc: "Which CPU and memory a pod requests and is limited to, on a node that it shares with others.",
			Open: envs.Open(DefaultSharedOptions, newSharedSource, newTask), Options: new(DefaultSharedOptions()), StepNanos: 1500,
			Info: sharedColumns, Baselines: sharedBaselines()},
	} {
		s.HeldOut = map[string]any{"split": SplitHeldOut}
		s.RenderModes = []string{"ansi", "rgb_array"}
		s.Metrics = []envs.Metric{
			{Column: "cost", Unit: "h", Lower: true}, {Column: "slack_pct", Unit: "%", Lower: true},
			{Column: "throttled_pct", Unit: "%", Lower: true}, {Column: "ooms", Lower: true}, {Column: "evictions", Lower: true},
		}
		if s.ID == "k8s/VerticalPodAutoscaler-v1" {
			s.Metrics = append(s.Metrics, envs.Metric{Column: "harm_cost_total", Unit: "h", Lower: true})
		}
		envs.Register(&s)
	}
}
