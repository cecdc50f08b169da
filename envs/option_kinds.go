package envs

import (
	"fmt"
	"math"
	"reflect"
)

// check rejects a value whose kind differs from the option's. Its error uses the names of [Option.Type], which clients
// in every language know.
func (o *Option) check(value any) error {
	if value == nil { // keeps the default
		return nil
	}
	v := reflect.ValueOf(value)
	got, want := kind(v), o.Type
	if want == "list" && got == "list" {
		return o.checkElements(v)
	}
	switch {
	case got == "int" && v.CanInt() && v.Int() < 0 && reflect.TypeOf(o.Default).Kind() == reflect.Uint64:
		return fmt.Errorf("%w: option %q is %d, want at least 0", ErrInvalidOption, o.Name, v.Int())
	case got == want, want == "float" && got == "int":
	case want == "int" && got == "float":
		if f := v.Float(); f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
			return fmt.Errorf("%w: option %q is %v, want a whole number", ErrInvalidOption, o.Name, f)
		}
	default:
		return fmt.Errorf("%w: option %q is %s, want %s", ErrInvalidOption, o.Name, got, want)
	}
	return nil
}

// checkElements checks the elements of a list against those of the default.
func (o *Option) checkElements(list reflect.Value) error {
	want := optionType(reflect.TypeOf(o.Default).Elem())
	for i := range list.Len() {
		v := list.Index(i)
		if v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if got := kind(v); got != want && (want != "float" || got != "int") {
			return fmt.Errorf("%w: element %d of option %q is %s, want %s", ErrInvalidOption, i, o.Name, got, want)
		}
	}
	return nil
}

// kind names the type of a value that came from JSON, msgpack, YAML or a caller.
func kind(v reflect.Value) string {
	if !v.IsValid() {
		return "nil"
	}
	switch v.Kind() {
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "int"
	case reflect.Float32, reflect.Float64:
		return "float"
	case reflect.Bool:
		return "bool"
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "list"
	case reflect.Map, reflect.Struct:
		return "map"
	}
	return "of a type that no option has"
}
