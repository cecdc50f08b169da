package cli

import (
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ParseKwargs reads arguments of the form key:value. The value is YAML: a number, true or false, a word, or a
// list such as [64, 64].
func ParseKwargs(flag string, args []string) (map[string]any, error) {
	kwargs := map[string]any{}
	for _, arg := range args {
		key, text, ok := strings.Cut(arg, ":")
		if !ok || key == "" {
			return nil, fmt.Errorf("--%s %q, want key:value", flag, arg)
		}
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return nil, fmt.Errorf("--%s %q: the value is no YAML: %w", flag, arg, err)
		}
		if _, isMap := value.(map[string]any); isMap || value == nil {
			value = text // such as a path with a colon and a blank, or an empty text
		}
		kwargs[key] = value
	}
	return kwargs, nil
}

// ParseEnvKwargs reads the arguments of --env-kwargs and of --eval-env-kwargs; the latter take precedence.
func ParseEnvKwargs(given, evaluate []string) (map[string]any, error) {
	kwargs, err := ParseKwargs("env-kwargs", given)
	if err != nil {
		return nil, err
	}
	later, err := ParseKwargs("eval-env-kwargs", evaluate)
	return MergeKwargs(kwargs, later), err
}

// MergeKwargs returns the union of the maps; later ones take precedence.
func MergeKwargs(layers ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, l := range layers {
		maps.Copy(all, l)
	}
	return all
}
