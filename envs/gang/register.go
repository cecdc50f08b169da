package gang

import "github.com/kubernasium/kubernasium/envs"

func init() {
	defaults := DefaultOptions()
	envs.Register(&envs.Spec{
		ID:  "k8s/GangWindow-v0",
		Doc: "When to re-plan the CPU shares of a bulk-synchronous job, and for which window.",
		Open: func(opts map[string]any) (envs.Maker, error) {
			o := DefaultOptions()
			if err := envs.DecodeOptions(opts, &o); err != nil {
				return nil, err
			}
			if err := o.complete(); err != nil {
				return nil, err
			}
			src, err := newSource(o)
			if err != nil {
				return nil, err
			}
			return func() (envs.Task, error) { return newTask(src), nil }, nil
		},
		Options:     &defaults,
		HeldOut:     map[string]any{"split": SplitHeldOut},
		RenderModes: []string{"ansi", "rgb_array"},
		Info:        infoColumns,
		Metrics:     []envs.Metric{{Column: "total_s", Unit: "s", Lower: true}, {Column: "checkpoints", Lower: true}},
		Baselines:   baselines,
	})
}
