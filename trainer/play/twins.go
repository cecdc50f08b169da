package play

import (
	"maps"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok"
)

// An environment and its twin on an API server are one environment for models: the twin plays the
// same tasks, and its own options only say where its world is.

// SimulatedID returns the id of the environment of which id is the twin, or id itself.
func SimulatedID(id string) string {
	if original, _, err := kwok.Original(id); err == nil {
		return original.ID
	}
	return id
}

// Simulated returns the environment of which spec is the twin, or spec itself, and its options.
func Simulated(spec *envs.Spec, kwargs map[string]any) (*envs.Spec, map[string]any) {
	original, _, err := kwok.Original(spec.ID)
	if err != nil { // it has no twin
		return spec, kwargs
	}
	return original, optionsFor(original.ID, spec.ID, kwargs)
}

// optionsFor returns the options of the environment trained as the environment id takes them: of a
// twin's, one in the simulator takes none that says where the API server is.
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
