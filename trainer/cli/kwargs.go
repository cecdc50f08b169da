package cli

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// kwargs is the value of a flag that KwargsVar adds.
type kwargs struct {
	args   []string // as given
	parsed *map[string]any
}

var _ pflag.SliceValue = (*kwargs)(nil) // CommandLine and others read the arguments one by one

// KwargsVar adds a flag that may be repeated. Each argument has the form key:value, and *p becomes the map of
// all, which is never nil. A value is YAML: a number, true or false, a word, or a list such as [64, 64].
func KwargsVar(f *pflag.FlagSet, p *map[string]any, name, usage string) {
	*p = map[string]any{}
	f.Var(&kwargs{parsed: p}, name, usage)
}

// Replace sets the arguments, unless one of them is invalid.
func (k *kwargs) Replace(args []string) error {
	parsed := map[string]any{}
	for _, arg := range args {
		key, text, ok := strings.Cut(arg, ":")
		if !ok || key == "" {
			return errors.New("want key:value")
		}
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return fmt.Errorf("the value of %s is no YAML: %w", key, err)
		}
		if _, isMap := value.(map[string]any); isMap || value == nil {
			value = text // such as a path with a colon and a blank, or an empty text
		}
		parsed[key] = value
	}
	k.args, *k.parsed = args, parsed
	return nil
}

// The other methods are those of pflag's list of strings. String is empty without arguments, so that the help
// shows no default.

func (k *kwargs) Append(arg string) error { return k.Replace(append(k.args, arg)) }
func (k *kwargs) Set(arg string) error    { return k.Append(arg) }
func (k *kwargs) GetSlice() []string      { return k.args }
func (k *kwargs) String() string          { return strings.Join(k.args, " ") }
func (k *kwargs) Type() string            { return "stringArray" }

// MergeKwargs returns the union of the maps; later ones take precedence.
func MergeKwargs(layers ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, l := range layers {
		maps.Copy(all, l)
	}
	return all
}
