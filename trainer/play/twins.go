package play

import (
	"maps"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok"
)

// For models, an environment and its twin on an API server are the same environment: the twin plays the same
// tasks, and its own options only locate the API server.

// SimulatedID returns the id of the simulated environment if id names a twin, and otherwise id.
func SimulatedID(id string) string {
	if original, _, err := kwok.Original(id); err == nil {
		return original.ID
	}
	return id
}

// Simulated returns the simulated environment and its options if spec is a twin, and otherwise spec and kwargs.
func Simulated(spec *envs.Spec, kwargs map[string]any) (*envs.Spec, map[string]any) {
	original, _, err := kwok.Original(spec.ID)
	if err != nil { // it has no twin
		return spec, kwargs
	}
	return original, optionsFor(original.ID, spec.ID, kwargs)
}

// optionsFor converts the options of the environment trained to those of the environment id. An environment in
// the simulator has no options that locate an API server.
func optionsFor(id, trained string, kwargs map[string]any) map[string]any {
	if SimulatedID(trained) == trained || SimulatedID(id) != id {
		return kwargs
	}
	rest := maps.Clone(kwargs)
	for _, o := range envs.DescribeOptions(&kwok.Options{}) {
		delete(rest, o.Name)
	}
	return rest
}
