package envs

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/go-viper/mapstructure/v2"
)

// Option describes one option of an environment.
type Option struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"` // "string", "int", "float", "bool" or "list"
	Default any      `json:"default"`
	Doc     string   `json:"doc"`
	File    bool     `json:"file,omitempty"`   // its values are names of files or folders to read
	Words   []string `json:"-"`                // values of such an option that are not file names
	Min     *float64 `json:"min,omitempty"`    // least valid number; nil if only other options bound it
	Max     *float64 `json:"max,omitempty"`    // greatest
	OneOf   []string `json:"one_of,omitempty"` // the valid words of a string; nil if any is valid
}

// NamesFile reports whether a value of the option is the name of a file or a folder. If File is set, this holds for
// every value except the empty one and o's Words.
func (o *Option) NamesFile(value any) bool {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice {
		return o.File && v.Len() > 0
	}
	return o.File && value != nil && value != "" && !slices.ContainsFunc(o.Words, func(w string) bool { return value == w })
}

// ResolveFiles returns opts with the relative paths of options that name files or folders joined to
// folder. If there are none, it returns opts itself. It never changes opts.
func ResolveFiles(cfg any, opts map[string]any, folder string) map[string]any {
	out, cloned := opts, false
	for _, o := range DescribeOptions(cfg) {
		if !o.NamesFile(opts[o.Name]) {
			continue
		}
		if !cloned {
			out, cloned = maps.Clone(opts), true
		}
		out[o.Name] = resolve(opts[o.Name], folder)
	}
	return out
}

// resolve joins the relative paths in value, a string or a list of strings, to folder. It leaves values of other types
// to [DecodeOptions].
func resolve(value any, folder string) any {
	switch v := value.(type) {
	case string:
		if v != "" && !filepath.IsAbs(v) {
			return filepath.Join(folder, v)
		}
	case []any:
		paths := make([]any, len(v))
		for i := range v {
			paths[i] = resolve(v[i], folder)
		}
		return paths
	}
	return value
}

// Valid returns the values that o may have, as text; "" if only other options bound it.
func (o *Option) Valid() string {
	if o.Min != nil {
		return fmt.Sprintf("%v to %v", *o.Min, *o.Max)
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(o.OneOf), func(w string) bool { return w == "" }), ", ")
}

// Marks follow the name in the tag `opt`.
const (
	fileMark   = "file"   // the option names a file or a folder
	squashMark = "squash" // the field is a struct of options; it has no name
)

// DescribeOptions lists the options of the struct that cfg points to: its exported fields, with the name from the tag
// `opt`, the text from the tag `doc`, and the field's value as the default. An option that names a file or folder has
// the tag `opt:"name,file"`, so that a server can deny other users its files; the tag `words` lists its values that are
// not file names, separated by blanks. The tag `valid:"LOW,HIGH"` bounds a number or each number of a list, and
// `valid:"a|b|c"` lists the valid words of a string; [CheckOptions] checks them. A struct field with the tag
// `opt:",squash"` is replaced by the fields of that struct. A nil cfg has no options. DescribeOptions panics if a tag
// is malformed or two options share a name.
func DescribeOptions(cfg any) []Option {
	if cfg == nil {
		return nil
	}
	opts := describeStruct(reflect.ValueOf(cfg).Elem())
	names := map[string]bool{}
	for _, o := range opts {
		if names[o.Name] {
			panic(fmt.Sprintf("envs: two options are called %q", o.Name))
		}
		names[o.Name] = true
	}
	return opts
}

func describeStruct(v reflect.Value) []Option {
	var opts []Option
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, mark, _ := strings.Cut(f.Tag.Get("opt"), ",")
		switch mark {
		case squashMark:
			opts = append(opts, describeStruct(v.Field(i))...)
			continue
		case "", fileMark:
		default:
			panic(fmt.Sprintf("envs: option %s has the mark %q, want %q, %q or none", name, mark, fileMark, squashMark))
		}
		o := Option{
			Name:    name,
			File:    mark == fileMark,
			Type:    optionType(f.Type),
			Default: v.Field(i).Interface(),
			Doc:     f.Tag.Get("doc"),
		}
		if words := f.Tag.Get("words"); words != "" {
			o.Words = strings.Fields(words)
		}
		if valid, ok := f.Tag.Lookup("valid"); ok {
			o.bound(valid)
		}
		opts = append(opts, o)
	}
	return opts
}

// bound reads the tag `valid`.
func (o *Option) bound(valid string) {
	if o.Type == "string" {
		o.OneOf = strings.Split(valid, "|")
		return
	}
	low, high, _ := strings.Cut(valid, ",")
	least, errLow := strconv.ParseFloat(low, 64)
	most, errHigh := strconv.ParseFloat(high, 64)
	if errLow != nil || errHigh != nil || least > most || o.Type == "bool" {
		panic(fmt.Sprintf("envs: option %s of type %s is valid in %q, want LOW,HIGH of a number", o.Name, o.Type, valid))
	}
	o.Min, o.Max = &least, &most
}

func optionType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "int"
	case reflect.Float64:
		return "float"
	case reflect.Bool:
		return "bool"
	case reflect.Slice:
		return "list"
	}
	panic(fmt.Sprintf("envs: option of type %s", t))
}

// DecodeOptions sets the fields of the struct that cfg points to from opts, by the names that [DescribeOptions] lists.
// It converts numbers if no precision is lost, since options arrive from JSON, msgpack and the command line alike. An
// unknown name or a value of the wrong type is an error that wraps [ErrInvalidOption].
func DecodeOptions(opts map[string]any, cfg any) error {
	known := DescribeOptions(cfg)
	for _, name := range slices.Sorted(maps.Keys(opts)) {
		i := slices.IndexFunc(known, func(o Option) bool { return o.Name == name })
		if i < 0 {
			return unknownOption(name, known)
		}
		if err := known[i].check(opts[name]); err != nil {
			return err
		}
	}
	dec, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{Result: cfg, TagName: "opt", ErrorUnused: true})
	if err != nil {
		return err
	}
	if err := dec.Decode(opts); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidOption, err)
	}
	return nil
}

// A Check holds the value of an option and a description of the valid values.
type Check struct {
	name, given, want string
	ok                bool
}

// OneOf checks an option that must be one of a few words.
func OneOf(name, value string, among ...string) Check {
	return Check{name, quote(value), fmt.Sprintf("one of %q", among), slices.Contains(among, value)}
}

// Between checks an option that must be a number from low to high. NaN is in no range.
func Between[T int | float64](name string, value, low, high T) Check {
	return Check{name, fmt.Sprint(value), fmt.Sprintf("%v to %v", low, high), value >= low && value <= high}
}

// CheckOptions returns an error for the first invalid value in the struct of options that cfg points to. It checks the
// tags `valid` first (see [DescribeOptions]), then checks, for values that depend on other options. The error wraps
// [ErrInvalidOption].
func CheckOptions(cfg any, checks ...Check) error {
	var valid []Check
	for _, o := range DescribeOptions(cfg) {
		valid = o.checks(valid)
	}
	for _, c := range append(valid, checks...) {
		if !c.ok {
			return fmt.Errorf("%w: %s is %s, want %s", ErrInvalidOption, c.name, c.given, c.want)
		}
	}
	return nil
}

// checks appends to list whether the value of o, which Default holds, is valid.
func (o *Option) checks(list []Check) []Check {
	switch v := reflect.ValueOf(o.Default); {
	case o.OneOf != nil:
		return append(list, OneOf(o.Name, v.String(), o.OneOf...))
	case o.Min == nil:
	case o.Type == "list":
		for i := range v.Len() {
			list = append(list, o.between("each of "+o.Name, v.Index(i)))
		}
	default:
		return append(list, o.between(o.Name, v))
	}
	return list
}

func (o *Option) between(name string, v reflect.Value) Check {
	if v.CanFloat() {
		return Between(name, v.Float(), *o.Min, *o.Max)
	}
	return Between(name, int(v.Int()), int(*o.Min), int(*o.Max))
}

// An UnknownOptionError is returned for an option that an environment does not have. It wraps
// [ErrInvalidOption].
type UnknownOptionError struct {
	Name string
	hint string
}

func (e *UnknownOptionError) Error() string {
	return fmt.Sprintf("%s: unknown option %s; %s", ErrInvalidOption, quote(e.Name), e.hint)
}

// Unwrap returns [ErrInvalidOption].
func (e *UnknownOptionError) Unwrap() error { return ErrInvalidOption }

// maxName bounds the length of a name that is compared with others or repeated in an error. Clients may send names of
// megabytes; to compare these takes seconds.
const maxName = 200

// quote returns s in quotes, truncated if it is longer than any name.
func quote(s string) string {
	if len(s) <= maxName {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(strings.ToValidUTF8(s[:maxName], "")), len(s))
}

func unknownOption(name string, known []Option) error {
	var names []string
	best, bestDist := "", len(name)/2+1
	for _, o := range known {
		names = append(names, o.Name)
		if len(name) > maxName {
			continue
		}
		if d := levenshtein.ComputeDistance(name, o.Name); d < bestDist {
			best, bestDist = o.Name, d
		}
	}
	hint := "the options are " + strings.Join(names, ", ")
	switch {
	case best != "":
		hint = fmt.Sprintf("did you mean %q?", best)
	case len(names) == 0:
		hint = "there are none"
	}
	return &UnknownOptionError{Name: name, hint: hint}
}
