package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/envs"
)

// parseKwargs reads arguments of the form key:value, the value being YAML: a number, true or
// false, a word, or a list such as [64, 64].
func parseKwargs(flag string, args []string) (map[string]any, error) {
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
			value = text // such as a path with a colon and a blank, or nothing
		}
		kwargs[key] = value
	}
	return kwargs, nil
}

// merge returns the union of the maps; later ones win.
func merge(layers ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, l := range layers {
		maps.Copy(all, l)
	}
	return all
}

// heldOut returns the options of an environment for evaluation: those of a training, the
// environment's held-out part, and what was asked for, which wins over both.
func heldOut(spec *envs.Spec, trained map[string]any, given ...map[string]any) map[string]any {
	return merge(append([]map[string]any{trained, spec.HeldOut}, given...)...)
}

// episodesText says how many episodes were played, and of which instances if those are not the
// held-out ones.
func episodesText(spec *envs.Spec, kwargs map[string]any, n int) string {
	for _, name := range slices.Sorted(maps.Keys(spec.HeldOut)) {
		if got := kwargs[name]; !reflect.DeepEqual(got, spec.HeldOut[name]) {
			return fmt.Sprintf("%d episodes of %s:%v, which are not held out", n, name, got)
		}
	}
	return fmt.Sprintf("%d held-out episodes", n)
}

// dataVariable names the environment variable with the folder of public data.
const dataVariable = "KUBERNASIUM_DATA"

// dataIn returns the folder of that name in the folder of public data, for commands whose --data was
// not given.
func dataIn(name string) (string, error) {
	root := dataFolder()
	if root == "" {
		return "", fmt.Errorf("no data: give --data, or set %s to the folder that holds %s/", dataVariable, name)
	}
	return filepath.Join(root, name), nil
}

// dataFolder returns the folder of public data: the environment variable's, or ../shared/data
// beside the module's root if it is there, or "".
func dataFolder() string {
	if dir := os.Getenv(dataVariable); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			data := filepath.Join(dir, "..", "shared", "data")
			if info, err := os.Stat(data); err == nil && info.IsDir() {
				return filepath.Clean(data)
			}
			return ""
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
