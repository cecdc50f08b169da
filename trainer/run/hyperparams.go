package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/hyperparams"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// Hyperparams are the settings of a training: the numbers of environments and steps, and the
// algorithm's own.
type Hyperparams struct {
	NEnvs      int
	NTimesteps int
	Config     algorithms.Config
}

// ReadHyperparams returns the settings for an algorithm and an environment. It starts from the algorithm's
// defaults. Then it applies those of conf, a file or a published source, or without conf those tuned for the
// environment. Last it applies params.
func ReadHyperparams(algo, env, conf string, params map[string]any) (Hyperparams, error) {
	a, err := algorithms.Get(algo)
	if err != nil {
		return Hyperparams{}, err
	}
	h := Hyperparams{NEnvs: 1, NTimesteps: cmp.Or(a.Timesteps, 1_000_000), Config: a.Defaults()}
	layer, err := Configuration(algo, env, conf)
	if err != nil {
		return h, err
	}
	if err := checkNormalize(a, cli.MergeKwargs(layer, params)); err != nil {
		return h, err
	}
	if layer, err = ExpandZoo(a, layer); err != nil {
		return h, inFile(conf, err)
	}
	if params, err = ExpandZoo(a, params); err != nil {
		return h, err
	}
	err = h.set(cli.MergeKwargs(layer, params))
	return h, err
}

// defaultsOf returns the defaults of an algorithm's own hyperparameters by name.
func defaultsOf(a algorithms.Algorithm) (map[string]any, error) {
	defaults, err := Hyperparams{Config: a.Defaults()}.Values()
	delete(defaults, "n_envs")
	delete(defaults, "n_timesteps")
	return defaults, err
}

// inFile adds the path of the hyperparameters' file to an error, unless it is the tuned one.
func inFile(conf string, err error) error {
	if conf == "" {
		return err
	}
	return fmt.Errorf("%s: %w", conf, err)
}

// maxEnvs limits n_envs to four times a server's default.
const maxEnvs = 1 << 16

// set sets the named hyperparameters. An unknown name is an error.
func (h *Hyperparams) set(values map[string]any) (err error) {
	all := maps.Clone(values)
	for name, field := range map[string]*int{"n_envs": &h.NEnvs, "n_timesteps": &h.NTimesteps} {
		if v, ok := all[name]; ok {
			if *field, err = WholeNumber(name, v); err != nil {
				return err
			}
			delete(all, name)
		}
	}
	if h.NEnvs > maxEnvs {
		return fmt.Errorf("hyperparameter n_envs is %d, want at most %d", h.NEnvs, maxEnvs)
	}
	return decodeStrict(all, h.Config)
}

// Values returns all hyperparameters by name, in the form that set accepts.
func (h Hyperparams) Values() (map[string]any, error) {
	text, err := json.Marshal(h.Config)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for name, v := range all {
		if x, ok := v.(float64); ok && x == float64(int(x)) {
			all[name] = int(x) // prints 1000000, not 1e+06
		}
	}
	all["n_envs"], all["n_timesteps"] = h.NEnvs, h.NTimesteps
	return all, nil
}

// Configuration returns the hyperparameters of an environment from a file in RL Zoo's format, a map from ids to
// hyperparameters, or from a config.yml. conf is the path of a file, or the source of a shipped one. Without
// conf it reads the tuned file, which need not contain the environment.
func Configuration(algo, env, conf string) (map[string]any, error) {
	a, err := algorithms.Get(algo)
	if err != nil {
		return nil, err
	}
	name := path.Join("hyperparams", conf, algo+".yml")
	text, err := hyperparams.Files.ReadFile(path.Join(conf, algo+".yml"))
	if err != nil && conf == "" {
		return nil, nil // the algorithm has no tuned file
	}
	if err != nil { // a source has no separator; write ./<name> for a file of that name
		name = conf
		text, err = os.ReadFile(conf)
	}
	if err != nil {
		return nil, fmt.Errorf("hyperparameters of %s: %w; want a file%s", algo, err, sources(algo))
	}
	all, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	names := FieldNames(a.Defaults())
	for key := range all {
		if slices.Contains(names, key) { // a config.yml, without ids
			return all, nil
		}
	}
	values, ok := all[env]
	for _, id := range slices.Sorted(maps.Keys(all)) { // the id of its twin, or of the environment of which it is the twin
		if !ok && play.SimulatedID(id) == play.SimulatedID(env) {
			values, ok = all[id], true
		}
	}
	if !ok { // RL Zoo's ids have no namespace
		values, ok = all[path.Base(env)]
	}
	if !ok && conf != "" {
		return nil, fmt.Errorf("%s has no hyperparameters for %s; it has %s", name, env, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	if !ok {
		return nil, nil
	}
	m, ok := values.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: %s has %v, want hyperparameters by their names", name, env, values)
	}
	return m, nil
}

// orderedDict is the tag of the map in a config.yml of RL Zoo: a list with a list of pairs.
const orderedDict = "tag:yaml.org,2002:python/object/apply:collections.OrderedDict"

// parseConfig reads a YAML map.
func parseConfig(text []byte) (map[string]any, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if len(root.Content) == 1 && root.Content[0].LongTag() == orderedDict {
		var lists [][][]any
		if err := root.Content[0].Decode(&lists); err != nil {
			return nil, err
		}
		all := map[string]any{}
		for _, pairs := range lists {
			for _, pair := range pairs {
				if len(pair) != 2 {
					return nil, fmt.Errorf("%v in an OrderedDict, want a pair", pair)
				}
				all[fmt.Sprint(pair[0])] = pair[1]
			}
		}
		return all, nil
	}
	var all map[string]any
	err := root.Decode(&all)
	return all, err
}

// sources lists the published configurations of an algorithm.
func sources(algo string) string {
	files, err := fs.Glob(hyperparams.Files, "*/"+algo+".yml")
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

// WholeNumber returns the value of a hyperparameter as an int. A float64 such as 1e5 may be a whole number.
func WholeNumber(name string, v any) (int, error) {
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
		return fmt.Errorf("hyperparameters: %w; the names are %s", err, strings.Join(FieldNames(cfg), ", "))
	}
	return nil
}

// FieldNames returns the names of the hyperparameters of an algorithm, and n_envs and n_timesteps, sorted.
func FieldNames(cfg any) []string {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		return nil
	}
	names := slices.AppendSeq([]string{"n_envs", "n_timesteps"}, maps.Keys(m))
	slices.Sort(names)
	return names
}
