package envs

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// A Baseline is a heuristic, an exact solver or a bound that agents are compared with. It reads the true state of the
// task, not the observation.
type Baseline struct {
	Name        string
	Doc         string // one sentence
	Clairvoyant bool   // it uses knowledge that no agent has, such as the future, so verdicts leave it out; it need not be a bound
	// New returns a policy for the episodes of t. It fails if the baseline does not know t's type
	// or does not support t's options. Each Task needs a policy of its own.
	New func(t Task) (Policy, error)

	// StandsFor names the baseline and the parameters that this one has the tuned values of, such as "mpc:lambda=1";
	// otherwise it is "".
	StandsFor string

	params any                                                      // a pointer to the struct of defaults; nil if there are none
	bind   func(map[string]any) (func(Task) (Policy, error), error) // returns New for given parameters
}

// A Policy writes the action of a [Baseline] for the current state of its Task. first is true at
// the first call in an episode, which need not be the episode's first decision: a caller may skip
// decisions, and may take other actions than the policy chose. A policy changes nothing in the
// Task, except that it may leave a plan ([Planner]). A policy that may take long returns an error
// when ctx ends.
type Policy func(ctx context.Context, s *cluster.State, first bool, action []float32) error

// Parametric returns b with parameters. The tags of P's fields are those of options (see
// [DescribeOptions]), and `range:"LOW,HIGH"` says where `trainer tune` searches. With
// `range:"LOW,HIGH,log"` it searches on a logarithmic scale. The range of a string lists its
// values, as in `range:"a|b|c"`. A parameter without a range is not searched. newPolicy returns
// Baseline.New for given parameters.
//
// The baseline's name alone selects the defaults; "name:parameter=value,…" selects other values.
func Parametric[P any](b Baseline, defaults P, newPolicy func(P) func(Task) (Policy, error)) Baseline {
	b.params = &defaults
	b.Parameters() // panics if a tag is malformed
	b.New = newPolicy(defaults)
	b.bind = func(values map[string]any) (func(Task) (Policy, error), error) {
		p := defaults
		if err := cmp.Or(DecodeOptions(values, &p), CheckOptions(&p)); err != nil {
			return nil, err
		}
		return newPolicy(p), nil
	}
	return b
}

// ForTask returns the New of a baseline that plays tasks of type T. what stands for the baseline in the error for
// another task.
func ForTask[T Task](what string, policy func(t T) (Policy, error)) func(Task) (Policy, error) {
	return func(task Task) (Policy, error) {
		t, ok := task.(T)
		if !ok {
			return nil, fmt.Errorf("%s for a task of type %T", what, task)
		}
		return policy(t)
	}
}

// Tuned returns b with the given values as a baseline of its own. It panics if b does not take
// them.
func (b Baseline) Tuned(name, doc string, values map[string]any) Baseline {
	t, err := b.With(values)
	if err != nil {
		panic(err)
	}
	return Baseline{Name: name, Doc: doc, Clairvoyant: b.Clairvoyant, New: t.New, StandsFor: t.Name}
}

// With returns b with the given parameters, which its name contains. The error wraps
// [ErrUnknownBaseline].
func (b *Baseline) With(values map[string]any) (*Baseline, error) {
	if b.bind == nil {
		return nil, fmt.Errorf("%w: %s takes no parameters", ErrUnknownBaseline, b.Name)
	}
	makes, err := b.bind(values)
	if err != nil {
		return nil, fmt.Errorf("%w: %s with %v: %w", ErrUnknownBaseline, b.Name, values, err)
	}
	c := *b
	c.New, c.Name = makes, b.nameWith(values)
	return &c, nil
}

// nameWith returns the name that selects b with values, in the order of its parameters.
func (b *Baseline) nameWith(values map[string]any) string {
	var words []string
	for _, p := range b.Parameters() {
		if v, ok := values[p.Name]; ok {
			words = append(words, fmt.Sprintf("%s=%v", p.Name, v))
		}
	}
	if words == nil {
		return b.Name
	}
	return b.Name + ":" + strings.Join(words, ",")
}

// maxBaselineName bounds the length of a baseline's name with its parameters.
const maxBaselineName = 4096

// Baseline returns the baseline called name, which may give parameters: "mpc:lambda=1,penalty=25".
// The error wraps [ErrUnknownBaseline] and lists the names, or the parameters.
func (s *Spec) Baseline(name string) (*Baseline, error) {
	if len(name) > maxBaselineName {
		return nil, fmt.Errorf("%w: a name of %d bytes, want at most %d", ErrUnknownBaseline, len(name), maxBaselineName)
	}
	names := make([]string, len(s.Baselines))
	plain, given, parametric := strings.Cut(name, ":")
	for i := range s.Baselines {
		b := &s.Baselines[i]
		if names[i] = b.Name; b.Name == plain && !parametric {
			return b, nil
		}
		if b.Name == plain {
			values, err := b.ParseParameters(given)
			if err != nil {
				return nil, err
			}
			return b.With(values)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: %s has no baselines, so none called %q", ErrUnknownBaseline, s.ID, name)
	}
	return nil, fmt.Errorf("%w: %s has no baseline %q; it has %s", ErrUnknownBaseline, s.ID, name, strings.Join(names, ", "))
}

// ParseParameters parses the part of a name after the colon, "parameter=value,…". The error wraps [ErrUnknownBaseline].
func (b *Baseline) ParseParameters(text string) (map[string]any, error) {
	values, known := map[string]any{}, b.Parameters()
	for word := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("%w: %s:%s: %q is not of the form parameter=value", ErrUnknownBaseline, b.Name, text, word)
		}
		if _, twice := values[name]; twice {
			return nil, fmt.Errorf("%w: %s:%s: parameter %s is given twice", ErrUnknownBaseline, b.Name, text, name)
		}
		values[name] = value // With rejects unknown names
		if i := slices.IndexFunc(known, func(p Parameter) bool { return p.Name == name }); i >= 0 {
			v, err := known[i].Parse(value)
			if err != nil {
				return nil, fmt.Errorf("%w: %s:%s: %w", ErrUnknownBaseline, b.Name, text, err)
			}
			values[name] = v
		}
	}
	return values, nil
}

// A Parameter is a constant of a baseline that its tuning may change.
type Parameter struct {
	Option
	Low, High float64  // range of the search; equal if the parameter is not searched, and for strings
	Log       bool     // searched on a logarithmic scale
	Choices   []string // the values of a string
}

// Parameters lists the parameters of b, or returns nil if it has none. It panics if a tag is
// malformed.
func (b *Baseline) Parameters() []Parameter {
	if b.params == nil {
		return nil
	}
	ranges := map[string]string{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(b.params).Elem()) {
		ranges[f.Tag.Get("opt")] = f.Tag.Get("range")
	}
	var list []Parameter
	for _, o := range DescribeOptions(b.params) {
		p := Parameter{Option: o}
		if err := p.setRange(ranges[o.Name]); err != nil {
			panic(fmt.Sprintf("envs: baseline %s, parameter %s: range %q: %v", b.Name, o.Name, ranges[o.Name], err))
		}
		list = append(list, p)
	}
	return list
}

// setRange reads the tag of a range.
func (p *Parameter) setRange(tag string) error {
	if tag == "" || p.Type == "bool" {
		return nil
	}
	if p.Type == "string" {
		p.Choices = strings.Split(tag, "|")
		return nil
	}
	words := strings.Split(tag, ",")
	if p.Log = len(words) == 3 && words[2] == "log"; len(words) != 2 && !p.Log {
		return fmt.Errorf("want LOW,HIGH or LOW,HIGH,log")
	}
	for i, to := range []*float64{&p.Low, &p.High} {
		var err error
		if *to, err = strconv.ParseFloat(words[i], 64); err != nil {
			return err
		}
	}
	if p.Low >= p.High || p.Log && p.Low <= 0 {
		return fmt.Errorf("want LOW < HIGH, and above 0 on a logarithmic scale")
	}
	return nil
}

// Parse reads a value of p.
func (p *Parameter) Parse(text string) (v any, err error) {
	switch p.Type {
	case "int":
		v, err = strconv.Atoi(text)
	case "float":
		var f float64
		if f, err = strconv.ParseFloat(text, 64); err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
			err = strconv.ErrRange
		}
		v = f
	case "bool":
		v, err = strconv.ParseBool(text)
	default:
		v = text
		if p.Choices != nil && !slices.Contains(p.Choices, text) {
			err = fmt.Errorf("not one of %s", strings.Join(p.Choices, ", "))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("parameter %s is %q, want %s: %w", p.Name, text, article(p.Type), err)
	}
	return v, nil
}

func article(kind string) string {
	if kind == "int" {
		return "an " + kind
	}
	return "a " + kind
}
