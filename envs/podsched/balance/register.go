package balance

import "github.com/kubernasium/kubernasium/envs"

func init() {
	defaults := DefaultOptions()
	envs.Register(&envs.Spec{
		ID:  "k8s/PodBalance-v0",
		Doc: "Place a stream of deployments on a small cluster: balance, spread over racks, or pack.",
		Open: func(opts map[string]any) (envs.Maker, error) {
			o := DefaultOptions()
			if err := envs.DecodeOptions(opts, &o); err != nil {
				return nil, err
			}
			if err := o.complete(); err != nil {
				return nil, err
			}
			var file []deployment
			if o.Deployments != "" {
				var err error
				if file, err = readDeployments(o.Deployments); err != nil {
					return nil, err
				}
			}
			return func() (envs.Task, error) { return newTask(&o, file), nil }, nil
		},
		Live:        newLive,
		Options:     &defaults,
		StepNanos:   1000,
		RenderModes: []string{"ansi", "rgb_array"},
		Info:        infoColumns,
		Metrics:     metrics,
		Baselines:   baselines,
	})
}
