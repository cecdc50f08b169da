package wire

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// EncodeStepRequest writes a step with n rows of actions, which must be in the action space.
func (l *Layout) EncodeStepRequest(w *Writer, id, eid uint64, actions []float32) {
	w.Head(4, TypeStep, id)
	w.Str("eid")
	w.Uint(eid)
	w.Str("a")
	l.writeBatch(w, &l.act, actions, l.ActSize, 0, nil)
}

// EncodeSend writes a send with actions for the environments idx, as many as the layout has.
func (l *Layout) EncodeSend(w *Writer, id, eid uint64, idx []int, actions []float32) {
	w.Head(5, TypeSend, id)
	w.Str("eid")
	w.Uint(eid)
	w.Str("idx")
	writeInts(w, idx)
	w.Str("a")
	l.writeBatch(w, &l.act, actions, l.ActSize, 0, nil)
}

// Indices reads a field that is an array, typed or plain, of at most n integers from 0 to n-1; nil if it is absent.
func (f *Frame) Indices(key string, n int) ([]int, error) {
	v := f.Get(key)
	if v == nil {
		return nil, nil
	}
	wrong := Errorf(BadField, "%s is no array of at most %d integers from 0 to %d", key, n, n-1)
	if k, rest, ok := arrayLen(v); ok {
		if k > n {
			return nil, wrong
		}
		rows := make([]int, k)
		for j := range rows {
			var one Value
			one, rest = cut(rest)
			x, err := f.uint(one)
			if err != nil || x >= uint64(n) {
				return nil, wrong
			}
			rows[j] = int(x)
		}
		return rows, nil
	}
	var a Array
	if parseArray(v, &a) != nil || a.NDim != 1 || a.Len() > n || a.DType >= Float16 || a.DType == Bool {
		return nil, wrong
	}
	values := make([]float32, a.Len())
	if !getFloat32s(values, &a) {
		return nil, wrong
	}
	rows := make([]int, len(values))
	for j, x := range values {
		if x < 0 || x >= float32(n) {
			return nil, wrong
		}
		rows[j] = int(x)
	}
	return rows, nil
}

// EncodePolicy writes the reply to policy: n rows of actions, and none, which marks rows without a
// decision.
func (l *Layout) EncodePolicy(w *Writer, id uint64, actions []float32, none []bool) {
	anyNone := slices.Contains(none, true)
	w.Head(3+count(anyNone), TypePolicy+OK, id)
	w.Str("a")
	l.writeBatch(w, &l.act, actions, l.ActSize, 0, nil)
	l.writeFlags(w, "none", anyNone, none)
}

// DecodePolicy reads the reply to policy. It is the inverse of EncodePolicy, except that it does
// not change rows without a decision.
func (l *Layout) DecodePolicy(f *Frame, actions []float32, none []bool) error {
	if err := readFlags(f.Get("none"), none, false, l.N); err != nil {
		return err
	}
	chosen := make([]float32, len(actions))
	if err := l.readBatch(f.Get("a"), &l.act, chosen, l.ActSize, 0, nil); err != nil {
		return err
	}
	for i := range l.N {
		if k := l.ActSize; !none[i] {
			copy(actions[i*k:(i+1)*k], chosen[i*k:(i+1)*k])
		}
	}
	return nil
}

// DecodeActions reads the actions of a step into dst, of length N*ActSize. It does not check that
// they are in the action space.
func (l *Layout) DecodeActions(f *Frame, dst []float32) error {
	v := f.Get("a")
	if v == nil {
		return Errorf(BadField, "field a is missing")
	}
	if l.act.parts == nil {
		if isInt(v[0]) || isFloat(v[0]) {
			if len(dst) != 1 {
				return Errorf(InvalidAction, "one number for actions of %d", len(dst))
			}
			dst[0] = number(v)
			return nil
		}
		if n, rest, ok := arrayLen(v); ok {
			return numbers(dst, n, rest)
		}
	}
	err := l.readBatch(v, &l.act, dst, l.ActSize, 0, nil)
	if e, ok := err.(*Error); ok && e.Reason == BadField {
		return Errorf(InvalidAction, "%s", e.Msg)
	}
	return err
}

// numbers reads a plain array of n numbers.
func numbers(dst []float32, n int, rest []byte) error {
	if n != len(dst) {
		return Errorf(InvalidAction, "%d numbers, want %d", n, len(dst))
	}
	for i := range dst {
		if !isInt(rest[0]) && !isFloat(rest[0]) {
			return Errorf(InvalidAction, "element %d is no number", i)
		}
		dst[i] = number(rest)
		_, rest = cut(rest)
	}
	return nil
}

// number returns the integer or float at the start of v, which must have been checked.
func number(v []byte) float32 {
	c := v[0]
	if msgpcode.IsFixedNum(c) {
		return float32(int8(c))
	}
	switch c {
	case msgpcode.Float:
		return math.Float32frombits(binary.BigEndian.Uint32(v[1:]))
	case msgpcode.Double:
		return float32(math.Float64frombits(binary.BigEndian.Uint64(v[1:])))
	case msgpcode.Uint8:
		return float32(v[1])
	case msgpcode.Uint16:
		return float32(binary.BigEndian.Uint16(v[1:]))
	case msgpcode.Uint32:
		return float32(binary.BigEndian.Uint32(v[1:]))
	case msgpcode.Uint64:
		return float32(binary.BigEndian.Uint64(v[1:]))
	case msgpcode.Int8:
		return float32(int8(v[1]))
	case msgpcode.Int16:
		return float32(int16(binary.BigEndian.Uint16(v[1:])))
	case msgpcode.Int32:
		return float32(int32(binary.BigEndian.Uint32(v[1:])))
	}
	return float32(int64(binary.BigEndian.Uint64(v[1:])))
}

// Seeds reads the field seed of a reset of n environments: one seed per environment, nil if it has
// none. It returns nil if the field is absent.
func (f *Frame) Seeds(n int) ([]*uint64, error) {
	v := f.Get("seed")
	if v == nil {
		return nil, nil
	}
	values := make([]uint64, n)
	seeds := make([]*uint64, n)
	if isInt(v[0]) {
		s, err := f.uint(v)
		if err != nil {
			return nil, Errorf(InvalidOption, "seed: %s", err)
		}
		for i := range seeds {
			values[i] = s + uint64(i)
			seeds[i] = &values[i]
		}
		return seeds, nil
	}
	k, rest, ok := arrayLen(v)
	if !ok || k != n {
		return nil, Errorf(InvalidOption, "seed is neither an unsigned integer nor an array of %d", n)
	}
	for i := range seeds {
		var one Value
		if one, rest = cut(rest); one[0] == msgpcode.Nil {
			continue
		}
		s, err := f.uint(one)
		if err != nil {
			return nil, Errorf(InvalidOption, "seed %d: %s", i, err)
		}
		values[i] = s
		seeds[i] = &values[i]
	}
	return seeds, nil
}

// Rows reads the field to of a fork among n environments: an array of their numbers.
func (f *Frame) Rows(n int) ([]int, error) {
	v := f.Get("to")
	if v == nil {
		return nil, Errorf(BadField, "field to is missing")
	}
	k, rest, ok := arrayLen(v)
	if !ok || k < 1 || k > n {
		return nil, Errorf(BadField, "to is no array of 1 to %d environments", n)
	}
	rows := make([]int, k)
	for i := range rows {
		var one Value
		one, rest = cut(rest)
		x, err := f.uint(one)
		if err != nil || x >= uint64(n) {
			return nil, Errorf(BadField, "element %d of to is no environment from 0 to %d", i, n-1)
		}
		rows[i] = int(x)
	}
	return rows, nil
}

// ResetMask reads the field mask of a reset of n environments; nil if it is absent.
func (f *Frame) ResetMask(n int) ([]bool, error) {
	v := f.Get("mask")
	if v == nil {
		return nil, nil
	}
	mask := make([]bool, n)
	if k, rest, ok := arrayLen(v); ok {
		if k != n {
			return nil, Errorf(InvalidOption, "a reset mask of %d for %d environments", k, n)
		}
		for i := range mask {
			if rest[0] != msgpcode.True && rest[0] != msgpcode.False {
				return nil, Errorf(InvalidOption, "element %d of the reset mask is no bool", i)
			}
			mask[i] = rest[0] == msgpcode.True
			rest = rest[1:]
		}
	} else if err := readFlags(v, mask, false, n); err != nil {
		return nil, Errorf(InvalidOption, "reset mask: %s", err.(*Error).Msg)
	}
	if !slices.Contains(mask, true) {
		return nil, Errorf(InvalidOption, "a reset mask that selects no environment")
	}
	return mask, nil
}
