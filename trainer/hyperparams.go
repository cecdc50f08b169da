package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// shipped holds the tuned hyperparameters, <algo>.yml, and published ones that differ from
// them, <source>/<algo>.yml.
//
//go:embed hyperparams
var shipped embed.FS

// hyperparams are the settings of a training: how many environments and steps, and the
// algorithm's own.
type hyperparams struct {
	NEnvs      int
	NTimesteps int
	Config     any // the algorithm's, as defaultConfig makes it
}

// readHyperparams returns the settings for an algorithm and an environment: the algorithm's
// defaults, then those tuned for the environment or, if conf is given, those of that file or
// published source in their place, then params.
func readHyperparams(algo, env, conf string, params map[string]any) (hyperparams, error) {
	h := hyperparams{NEnvs: 1, NTimesteps: 1_000_000, Config: defaultConfig(algo)}
	layer, err := configuration(algo, env, conf)
	if err != nil {
		return h, err
	}
	if err := checkNormalize(algo, merge(layer, params)); err != nil {
		return h, err
	}
	if layer, err = expandNormalize(layer); err != nil {
		return h, err
	}
	if params, err = expandNormalize(params); err != nil {
		return h, err
	}
	all := merge(layer, params)
	for name, field := range map[string]*int{"n_envs": &h.NEnvs, "n_timesteps": &h.NTimesteps} {
		if v, ok := all[name]; ok {
			if *field, err = wholeNumber(name, v); err != nil {
				return h, err
			}
			delete(all, name)
		}
	}
	return h, decodeStrict(all, h.Config)
}

// configuration returns the hyperparameters of an environment in a file of RL Zoo's form, a map
// from ids to hyperparameters. conf is the path of one, or the source of one that is shipped;
// without it, it is the tuned one, which need not have the environment.
func configuration(algo, env, conf string) (map[string]any, error) {
	name := path.Join("hyperparams", conf, algo+".yml")
	text, err := shipped.ReadFile(name)
	if err != nil { // a source has no path's characters, and a file of that name is ./<name>
		name = conf
		text, err = os.ReadFile(conf)
	}
	if err != nil {
		return nil, fmt.Errorf("hyperparameters of %s: %w; want a file%s", algo, err, sources(algo))
	}
	var all map[string]map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	values, ok := all[env]
	if !ok && conf != "" {
		return nil, fmt.Errorf("%s has no hyperparameters for %s; it has %s", name, env, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return values, nil
}

// sources names the published configurations of an algorithm.
func sources(algo string) string {
	files, err := fs.Glob(shipped, "hyperparams/*/"+algo+".yml")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	if len(files) == 0 {
		return ""
	}
	for i, f := range files {
		files[i] = path.Base(path.Dir(f))
	}
	return ", or one of " + strings.Join(files, ", ")
}

func wholeNumber(name string, v any) (int, error) {
	switch x := v.(type) {
	case int:
		return x, nil
	case float64: // 1e5
		if x == float64(int(x)) {
			return int(x), nil
		}
	}
	return 0, fmt.Errorf("hyperparameter %s is %v, want a whole number", name, v)
}

// decodeStrict sets the fields of cfg by their JSON names; an unknown name is an error.
func decodeStrict(values map[string]any, cfg any) error {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(cfg); err != nil {
		return fmt.Errorf("hyperparameters: %w; the names are %s", err, strings.Join(fieldNames(cfg), ", "))
	}
	return nil
}

func fieldNames(cfg any) []string {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		return nil
	}
	names := []string{"n_envs", "n_timesteps"}
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
