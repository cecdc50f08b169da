package run

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
	"go.yaml.in/yaml/v3"
)

// RL Zoo's files hold arguments as the text of a Python expression, such as "dict(net_arch=[64, 64],
// activation_fn=nn.Tanh)". Starlark, a dialect of Python without files, network or endless loops, evaluates it.

// pythonArgs returns the arguments of a hyperparameter that is a map or the text of a dict.
func pythonArgs(name string, v any) (map[string]any, error) {
	switch x := v.(type) {
	case map[string]any:
		return x, nil
	case string:
		var args map[string]any
		if err := yaml.Unmarshal([]byte(x), &args); err == nil && args != nil { // {norm_obs: true}
			return args, nil
		}
		value, err := evalPython(x)
		if err != nil {
			return nil, fmt.Errorf("hyperparameter %s is %q, want a dict such as dict(a=1): %w", name, x, err)
		}
		if args, ok := value.(map[string]any); ok {
			return args, nil
		}
	}
	return nil, fmt.Errorf("hyperparameter %s is %v, want a dict such as dict(a=1)", name, v)
}

// maxPythonSteps limits the work of an expression. A dict of ten arguments takes less than a hundred steps.
const maxPythonSteps = 10_000

// evalPython returns the value of an expression in the types of encoding/json. It converts names such as
// nn.Tanh to text.
func evalPython(text string) (any, error) {
	thread := &starlark.Thread{Name: "hyperparameters"}
	thread.SetMaxExecutionSteps(maxPythonSteps)
	names := starlark.StringDict{}
	for _, module := range []string{"nn", "th", "torch", "optim"} {
		names[module] = dottedName(module)
	}
	v, err := starlark.EvalOptions(&syntax.FileOptions{}, thread, "", strings.TrimSpace(text), names)
	if err != nil {
		return nil, err
	}
	return fromStarlark(v)
}

func fromStarlark(v starlark.Value) (any, error) {
	switch x := v.(type) {
	case starlark.NoneType:
		return nil, nil
	case starlark.Bool:
		return bool(x), nil
	case starlark.String:
		return string(x), nil
	case starlark.Float:
		return float64(x), nil
	case starlark.Int:
		if i, ok := x.Int64(); ok {
			return int(i), nil
		}
	case dottedName:
		return string(x), nil
	case *starlark.Dict:
		m := map[string]any{}
		for _, item := range x.Items() {
			key, ok := starlark.AsString(item[0])
			if !ok {
				return nil, fmt.Errorf("key %v is no text", item[0])
			}
			value, err := fromStarlark(item[1])
			if err != nil {
				return nil, err
			}
			m[key] = value
		}
		return m, nil
	case starlark.Indexable: // a list or tuple
		list := make([]any, x.Len())
		for i := range list {
			var err error
			if list[i], err = fromStarlark(x.Index(i)); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("%v is a %s, want a number, text, list or dict", v, v.Type())
}

// dottedName is a name in a Python module, with its dots.
type dottedName string

var _ starlark.HasAttrs = dottedName("")

// Attr implements [starlark.HasAttrs].
func (d dottedName) Attr(name string) (starlark.Value, error) { return d + "." + dottedName(name), nil }

// AttrNames implements [starlark.HasAttrs].
func (d dottedName) AttrNames() []string { return nil }

// String, Type, Freeze, Truth and Hash implement [starlark.Value].
func (d dottedName) String() string { return string(d) }

func (d dottedName) Type() string { return "name" }

func (d dottedName) Freeze() {}

func (d dottedName) Truth() starlark.Bool { return true }

func (d dottedName) Hash() (uint32, error) { return starlark.String(d).Hash() }
