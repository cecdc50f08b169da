package wire

import (
	"reflect"
	"strings"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// wrongField returns an error, in the protocol's terms, for the first field of the frame that the
// struct at v cannot hold, or nil.
func (f *Frame) wrongField(v any) error {
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		value := f.Get(name)
		if value == nil {
			continue
		}
		if got, want := kindOf(value[0]), kindFor(t.Field(i).Type); want != "" && got != want {
			return Errorf(BadField, "%s: field %s is of type %s, want %s", f.Type, name, got, want)
		}
	}
	return nil
}

// kindOf names the type of the value that begins with code c.
func kindOf(c byte) string {
	switch {
	case isInt(c):
		return "int"
	case isFloat(c):
		return "float"
	case msgpcode.IsString(c):
		return "string"
	case msgpcode.IsBin(c):
		return "bytes"
	case c == msgpcode.True || c == msgpcode.False:
		return "bool"
	case msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32:
		return "map"
	case msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32:
		return "list"
	}
	return "array" // the only extension
}

// kindFor names the type that a struct's field needs; empty means any.
func kindFor(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindFor(t.Elem())
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "int"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Map:
		return "map"
	case reflect.Slice:
		return "list"
	}
	return ""
}
