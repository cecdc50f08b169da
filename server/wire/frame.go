package wire

import (
	"bytes"
	"errors"
	"math"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Frame is a message split into its fields, which are decoded on access. It refers to the bytes
// that it was parsed from. A Frame may be reused for any number of messages; its zero value is
// ready to use.
type Frame struct {
	Type []byte // kind of message; empty if it has none
	ID   uint64 // 0 if it has none

	fields []field
	br     bytes.Reader
	dec    *msgpack.Decoder
	data   []byte
}

// A Value is one encoded MessagePack value within a Frame that was parsed without error.
type Value []byte

type field struct {
	key   []byte
	value Value
}

// Parse checks that data is one map within bounds and finds its fields. After an error, Type and ID
// are set if they were found before it. The errors are of type [*Error].
func (f *Frame) Parse(data []byte, bounds Bounds) error {
	f.Type, f.ID, f.fields, f.data = nil, 0, f.fields[:0], data
	n, pos, err := mapHeader(data)
	if err != nil {
		return err
	}
	if n > bounds.MapKeys {
		return errKeys(n, bounds.MapKeys)
	}
	for range n {
		var key []byte
		if key, pos, err = readKey(data, pos); err != nil {
			return err
		}
		end, err := bounds.skip(data, pos, 1)
		if err != nil {
			return err
		}
		if err := f.add(key, data[pos:end]); err != nil {
			return err
		}
		pos = end
	}
	if pos != len(data) {
		return Errorf(Malformed, "%d bytes after the map", len(data)-pos)
	}
	if len(f.Type) == 0 {
		return Errorf(Malformed, "no field t")
	}
	return nil
}

func (f *Frame) add(key []byte, v Value) error {
	var err error
	switch {
	case string(key) == "t" && f.Type == nil:
		if f.Type, _, err = readKey(v, 0); err != nil {
			return Errorf(Malformed, "field t is no string")
		}
	case string(key) == "id" && f.ID == 0:
		if f.ID, err = f.uint(v); err != nil {
			return Errorf(BadID, "field id: %s", err)
		}
	default:
		f.fields = append(f.fields, field{key, v})
	}
	return nil
}

func mapHeader(b []byte) (n, pos int, err error) {
	if len(b) == 0 {
		return 0, 0, Errorf(Malformed, "an empty frame")
	}
	c := b[0]
	switch {
	case msgpcode.IsFixedMap(c):
		return int(c & msgpcode.FixedMapMask), 1, nil
	case c == msgpcode.Map16:
		return readLength(b, 1, 2)
	case c == msgpcode.Map32:
		return readLength(b, 1, 4)
	}
	return 0, 0, Errorf(Malformed, "a frame that begins with 0x%02x, want a map", c)
}

// Get returns the value of a field, or nil if there is none or it is nil.
func (f *Frame) Get(key string) Value {
	for i := range f.fields {
		if string(f.fields[i].key) == key {
			if v := f.fields[i].value; v[0] != msgpcode.Nil {
				return v
			}
			return nil
		}
	}
	return nil
}

// at returns the library's decoder, set to v.
func (f *Frame) at(v Value) *msgpack.Decoder {
	if f.dec == nil {
		f.dec = msgpack.NewDecoder(&f.br)
	}
	f.br.Reset(v)
	f.dec.ResetReader(&f.br)
	return f.dec
}

// Decode decodes the whole frame into the struct that v points to, by the names in its json
// tags.
func (f *Frame) Decode(v any) error {
	if decodeStruct(f.data, v) == nil {
		return nil
	}
	if err := f.wrongField(v); err != nil {
		return err
	}
	return Errorf(BadField, "%s: a field holds values of a wrong type, or of a type that only arrays of section 4 of the protocol have", f.Type)
}

func decodeStruct(data []byte, v any) error {
	dec := msgpack.NewDecoder(bytes.NewReader(data))
	dec.SetCustomStructTag("json")
	dec.UseLooseInterfaceDecoding(true)
	return dec.Decode(v)
}

// Uint returns a field that is an unsigned integer. ok is false if it is absent.
func (f *Frame) Uint(key string) (x uint64, ok bool, err error) {
	v := f.Get(key)
	if v == nil {
		return 0, false, nil
	}
	if x, err = f.uint(v); err != nil {
		return 0, false, Errorf(BadField, "field %s: %s", key, err)
	}
	return x, true, nil
}

// Str returns a field that is a string, as part of the frame; nil if it is absent.
func (f *Frame) Str(key string) ([]byte, error) {
	v := f.Get(key)
	if v == nil {
		return nil, nil
	}
	s, _, err := readKey(v, 0)
	if err != nil {
		return nil, Errorf(BadField, "field %s is no string", key)
	}
	return s, nil
}

// Bin returns a field that is bytes, as part of the frame; nil if it is absent.
func (f *Frame) Bin(key string) ([]byte, error) {
	v := f.Get(key)
	if v == nil {
		return nil, nil
	}
	if !msgpcode.IsBin(v[0]) {
		return nil, Errorf(BadField, "field %s is of type %s, want bytes", key, kindOf(v[0]))
	}
	width, _, _ := lengths(v[0])
	n, pos, err := readLength(v, 1, width)
	if err != nil {
		return nil, err
	}
	return v[pos : pos+n : pos+n], nil
}

// Bool returns a field that is a boolean; false if it is absent.
func (f *Frame) Bool(key string) (bool, error) {
	v := f.Get(key)
	if v == nil {
		return false, nil
	}
	if v[0] != msgpcode.True && v[0] != msgpcode.False {
		return false, Errorf(BadField, "field %s is no bool", key)
	}
	return v[0] == msgpcode.True, nil
}

func isInt(c byte) bool { return msgpcode.IsFixedNum(c) || c >= msgpcode.Uint8 && c <= msgpcode.Int64 }

func isFloat(c byte) bool { return c == msgpcode.Float || c == msgpcode.Double }

// negative reports whether an encoded integer is below 0.
func negative(v Value) bool {
	c := v[0]
	return c >= msgpcode.NegFixedNumLow || c >= msgpcode.Int8 && c <= msgpcode.Int64 && v[1] >= 0x80
}

var errNotUint = errors.New("not an unsigned integer")

func (f *Frame) uint(v Value) (uint64, error) {
	if !isInt(v[0]) || negative(v) {
		return 0, errNotUint
	}
	return f.at(v).DecodeUint64()
}

// arrayLen returns the length of the plain array v and the elements after its header.
func arrayLen(v Value) (n int, rest []byte, ok bool) {
	c := v[0]
	pos := 1
	switch {
	case msgpcode.IsFixedArray(c):
		n = int(c & msgpcode.FixedArrayMask)
	case c == msgpcode.Array16:
		n, pos, _ = readLength(v, 1, 2)
	case c == msgpcode.Array32:
		n, pos, _ = readLength(v, 1, 4)
	default:
		return 0, nil, false
	}
	return n, v[pos:], true
}

// cut splits the first value off rest, which begins with a checked value.
func cut(rest []byte) (v Value, after []byte) {
	end, err := unbounded.skip(rest, 0, 0)
	if err != nil {
		return nil, nil
	}
	return rest[:end], rest[end:]
}

// unbounded is for values that have been checked.
var unbounded = Bounds{Depth: math.MaxInt32, MapKeys: math.MaxInt32}
