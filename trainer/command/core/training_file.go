package core

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// useTrainingFile sets the flags of train from the file of --conf-file, if it describes a whole training: a map
// from flags to values, with _ for -, that names the environment. Options and hyperparameters are maps too.
// Flags of the command line take precedence over those of the file. The training equals that of a command line
// with both.
func useTrainingFile(flags *pflag.FlagSet) error {
	conf := flags.Lookup("conf-file")
	path := conf.Value.String()
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // conf is a published source; if it does not exist, readHyperparams reports the error
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil || len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil // readHyperparams reports the error
	}
	pairs := root.Content[0].Content
	if !hasKey(pairs, "env") {
		return nil // the file holds only hyperparameters
	}
	for i := 0; i < len(pairs); i += 2 {
		key, value := pairs[i], pairs[i+1]
		f := flags.Lookup(strings.ReplaceAll(key.Value, "_", "-"))
		if f == nil || f == conf {
			return fmt.Errorf("%s:%d: %s is no setting of a training", path, key.Line, key.Value)
		}
		if err := setFlag(flags, f, value); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", path, key.Line, key.Value, err)
		}
	}
	conf.Changed = false
	return conf.Value.Set("")
}

// setFlag sets a flag to a YAML value. In a list flag the value precedes the given ones.
func setFlag(flags *pflag.FlagSet, f *pflag.Flag, value *yaml.Node) error {
	list, isList := f.Value.(pflag.SliceValue)
	switch {
	case isList && value.Kind == yaml.MappingNode:
		given := list.GetSlice()
		var all []string
		for i := 0; i < len(value.Content); i += 2 {
			if value.Content[i+1].Kind != yaml.ScalarNode {
				return fmt.Errorf("%s is no single value", value.Content[i].Value)
			}
			all = append(all, value.Content[i].Value+":"+value.Content[i+1].Value)
		}
		if len(all) == 0 {
			return nil
		}
		if err := flags.Set(f.Name, all[0]); err != nil { // marks the flag as given
			return err
		}
		return list.Replace(append(all, given...))
	case isList || value.Kind != yaml.ScalarNode:
		return fmt.Errorf("want %s", map[bool]string{true: "a map", false: "a single value"}[isList])
	case f.Changed || f.Name == "seed" && flags.Changed("seeds"):
		return nil
	}
	return flags.Set(f.Name, value.Value)
}

func hasKey(pairs []*yaml.Node, key string) bool {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].Value == key {
			return true
		}
	}
	return false
}
