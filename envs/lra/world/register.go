package world

import "github.com/kubernasium/kubernasium/envs"

// Register registers an environment of this family.
func Register(id, doc string, open func(options map[string]any) (envs.Maker, error), defaults any, baselines []envs.Baseline) {
	envs.Register(&envs.Spec{
		ID: id, Doc: doc, Open: open, Options: defaults, HeldOut: map[string]any{"split": SplitHeldOut},
		RenderModes: []string{"ansi", "rgb_array"}, Info: infoColumns, Metrics: metrics, Baselines: baselines,
	})
}
