package envstest

import (
	"maps"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

// An Extreme is a set of options at the ends of their ranges.
type Extreme struct {
	Name    string // name of the option, or what the options share
	Options map[string]any
}

// Ends returns the options of a specification with each number at both ends of its range, and with each of its words.
// Where options exclude one another, it comes as near to the end as Open permits. Ends reads the ranges from the
// specification and so covers new options automatically.
func Ends(spec *envs.Spec) []Extreme {
	var list []Extreme
	for _, o := range envs.DescribeOptions(spec.Options) {
		if o.Min != nil {
			for _, end := range []float64{*o.Min, *o.Max} {
				if v, ok := near(spec, nil, &o, end); ok {
					list = append(list, Extreme{o.Name, map[string]any{o.Name: v}})
				}
			}
		}
		for _, word := range o.OneOf {
			if opts := map[string]any{o.Name: word}; word != o.Default && opens(spec, opts) {
				list = append(list, Extreme{o.Name, opts})
			}
		}
	}
	return list
}

// Extremes returns Ends, and all numbers together as large as Open accepts them: for each word, and with each number at
// its lower end. It takes seconds.
func Extremes(spec *envs.Spec) []Extreme {
	list, all := Ends(spec), Greatest(spec).Options
	for _, o := range envs.DescribeOptions(spec.Options) {
		if o.Min != nil {
			if less := with(all, o.Name, integral(*o.Min)); opens(spec, less) {
				list = append(list, Extreme{"all but " + o.Name, less})
			}
		}
		for _, word := range o.OneOf {
			if word == o.Default || !opens(spec, map[string]any{o.Name: word}) {
				continue
			}
			by := with(all, o.Name, word)
			if !opens(spec, by) {
				by = greatest(spec, map[string]any{o.Name: word})
			}
			list = append(list, Extreme{"all by " + o.Name, by})
		}
	}
	return append(list, Extreme{"all", all})
}

// Greatest returns all numbers together as large as Open accepts them.
func Greatest(spec *envs.Spec) Extreme { return Extreme{"all", greatest(spec, nil)} }

// greatest returns the greatest numbers that Open accepts together with the options beside.
func greatest(spec *envs.Spec, beside map[string]any) map[string]any {
	for range 2 { // twice, since some options bound others
		for _, o := range envs.DescribeOptions(spec.Options) {
			if o.Max == nil {
				continue
			}
			if v, ok := near(spec, beside, &o, *o.Max); ok {
				beside = with(beside, o.Name, v)
			}
		}
	}
	return beside
}

// near returns the value closest to an end of an option's range that Open accepts together with the options beside. It
// halves the distance to the default until Open accepts the value.
func near(spec *envs.Spec, beside map[string]any, o *envs.Option, end float64) (any, bool) {
	from := number(o.Default)
	for d := range multiple { // some numbers must be a multiple of others
		if v := int(end) - d; o.Type == "int" && float64(v) >= *o.Min && opens(spec, with(beside, o.Name, v)) {
			return v, v != o.Default
		}
	}
	for d := end - from; ; d /= 2 {
		v := integral(from + d)
		if o.Type == "int" {
			v = int(math.Round(from + d))
		}
		if opens(spec, with(beside, o.Name, v)) {
			return v, v != o.Default
		}
		if math.Abs(d) < max(1e-3, 1e-3*math.Abs(from)) {
			return nil, false
		}
	}
}

// multiple is the largest number that an option must be a multiple of: the nodes of a sub-cluster.
const multiple = 27

// with returns opts with another option.
func with(opts map[string]any, name string, v any) map[string]any {
	opts = maps.Clone(opts)
	if opts == nil {
		opts = map[string]any{}
	}
	opts[name] = v
	return opts
}

// opens reports whether the options are valid.
func opens(spec *envs.Spec, opts map[string]any) bool {
	_, err := spec.Open(opts)
	return err == nil
}

// integral returns x as an int if it is whole.
func integral(x float64) any {
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return int(x)
	}
	return x
}

// number returns a numeric option as a float64, and 0 for any other.
func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// Own returns the registered specifications except the toys of tests.
func Own() []*envs.Spec {
	return slices.DeleteFunc(envs.Specs(), func(s *envs.Spec) bool { return len(s.ID) > 5 && s.ID[:5] == "test/" })
}

// Shrink halves the distance of all numbers of x to their defaults until they fit.
func Shrink(spec *envs.Spec, x Extreme, fits func(opts map[string]any) bool) Extreme {
	options := envs.DescribeOptions(spec.Options)
	for !fits(x.Options) {
		opts := maps.Clone(x.Options)
		for i := range options {
			o := &options[i]
			v, given := opts[o.Name]
			if !given || o.Min == nil || number(v) <= number(o.Default) {
				continue
			}
			middle := number(o.Default) + (number(v)-number(o.Default))/2
			if opts[o.Name] = integral(middle); o.Type == "int" {
				opts[o.Name] = int(middle)
			}
		}
		if !opens(spec, opts) || maps.Equal(opts, x.Options) {
			return Extreme{Name: "default"}
		}
		x.Options = opts
	}
	return x
}
