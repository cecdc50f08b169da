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
	v, want := reflect.ValueOf(value), reflect.TypeOf(o.Default)
	if o.Type == "list" && kind(v) == "list" {
		return o.checkElements(v, want.Elem())
	}
	return checkKind(fmt.Sprintf("option %q", o.Name), v, want)
}

// checkElements checks the elements of a list, which are to be of type want.
func (o *Option) checkElements(list reflect.Value, want reflect.Type) error {
	for i := range list.Len() {
		v := list.Index(i)
		if v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if err := checkKind(fmt.Sprintf("element %d of option %q", i, o.Name), v, want); err != nil {
			return err
		}
	}
	return nil
}

// checkKind rejects a value that the type cannot hold; what names it. Numbers from JSON are floats, whole ones too.
func checkKind(what string, v reflect.Value, of reflect.Type) error {
	got, want := kind(v), optionType(of)
	switch {
	case got == "int" && v.CanInt() && v.Int() < 0 && of.Kind() == reflect.Uint64:
		return fmt.Errorf("%w: %s is %d, want at least 0", ErrInvalidOption, what, v.Int())
	case got == "int" && want == "int" && v.CanUint() && v.Uint() > math.MaxInt64 && of.Kind() != reflect.Uint64:
		return fmt.Errorf("%w: %s is %d, want at most %d", ErrInvalidOption, what, v.Uint(), math.MaxInt64)
	case got == want, want == "float" && got == "int":
	case want == "int" && got == "float":
		if f := v.Float(); f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
			return fmt.Errorf("%w: %s is %v, want a whole number", ErrInvalidOption, what, f)
		}
	default:
		return fmt.Errorf("%w: %s is %s, want %s", ErrInvalidOption, what, got, want)
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
