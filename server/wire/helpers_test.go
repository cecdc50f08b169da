package wire

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/kubernasium/kubernasium/envs/space"
)

// decodeAny decodes a frame generically, by the library, into what JSON can hold: arrays as
// maps of dtype, shape and data, infinities as strings. It shares no code with the decoders
// under test but parseArray, whose layout TestWorkedExample pins.
func decodeAny(t testing.TB, data []byte) map[string]any {
	t.Helper()
	br := bytes.NewReader(data)
	dec := msgpack.NewDecoder(br)
	v, err := anyValue(dec, br, data)
	if err != nil {
		t.Fatalf("decode %x: %v", data, err)
	}
	return v.(map[string]any)
}

func anyValue(dec *msgpack.Decoder, br *bytes.Reader, data []byte) (any, error) {
	c, err := dec.PeekCode()
	if err != nil {
		return nil, err
	}
	switch {
	case msgpcode.IsFixedMap(c) || c == msgpcode.Map16:
		n, err := dec.DecodeMapLen()
		m := map[string]any{}
		for range n {
			key, kerr := dec.DecodeString()
			value, verr := anyValue(dec, br, data)
			if kerr != nil || verr != nil {
				return nil, fmt.Errorf("key %q: %v, %v", key, kerr, verr)
			}
			m[key] = value
		}
		return m, err
	case msgpcode.IsFixedArray(c) || c == msgpcode.Array16:
		n, err := dec.DecodeArrayLen()
		list := make([]any, n)
		for i := range list {
			var verr error
			if list[i], verr = anyValue(dec, br, data); verr != nil {
				return nil, verr
			}
		}
		return list, err
	case msgpcode.IsExt(c):
		return anyArray(dec, br, data)
	}
	v, err := dec.DecodeInterfaceLoose()
	return jsonable(v), err
}

func anyArray(dec *msgpack.Decoder, br *bytes.Reader, data []byte) (any, error) {
	start := len(data) - br.Len()
	_, n, err := dec.DecodeExtHeader()
	if err != nil {
		return nil, err
	}
	end := len(data) - br.Len() + n
	var a Array
	if err := parseArray(data[start:end], &a); err != nil {
		return nil, err
	}
	if _, err := br.Seek(int64(end), 0); err != nil {
		return nil, err
	}
	values, shape := make([]any, a.Len()), make([]any, a.NDim)
	for i := range values {
		one := a
		k := a.DType.ItemSize()
		one.Data = a.Data[i*k : (i+1)*k]
		if a.DType == Float64 || a.DType == Int64 {
			var x [1]float64
			getFloat64s(x[:], 1, &one)
			values[i] = jsonable(x[0])
			continue
		}
		var x [1]float32
		getFloat32s(x[:], &one)
		values[i] = jsonable(float64(x[0]))
	}
	for i, s := range a.Shape() {
		shape[i] = float64(s)
	}
	return map[string]any{"dtype": a.DType.String(), "shape": shape, "data": values}, nil
}

func jsonable(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case float64:
		switch {
		case math.IsInf(v, 1):
			return "inf"
		case math.IsInf(v, -1):
			return "-inf"
		}
	}
	return v
}

// Spaces of the tests. dictSpace has a part of each kind, and one within another.
var (
	boxSpace  = space.NewBox(-1, 1, 3)
	dictSpace = space.Dict{Fields: []space.Field{
		{Key: "nodes", Space: space.Box{Low: []float32{0}, High: []float32{float32(math.Inf(1))}, Shape: []int{2, 2}}},
		{Key: "phase", Space: space.Discrete{N: 4}},
		{Key: "more", Space: space.Dict{Fields: []space.Field{
			{Key: "levels", Space: space.MultiDiscrete{NVec: []int{3, 2}}},
			{Key: "flags", Space: space.MultiBinary{N: 2}},
		}}},
	}}
	infoColumns = []Column{{Name: "cost", DType: "float64"}, {Name: "count", DType: "int64"}, {Name: "ok", DType: "bool"}}
)

func newLayout(t testing.TB, n int, obs, act space.Space, info []Column) *Layout {
	t.Helper()
	l, err := NewLayout(n, obs, act, info)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newRows returns rows of zeros for l, in mode SAME_STEP.
func newRows(l *Layout) *Rows {
	n, k := l.N, len(l.info)
	return &Rows{
		Obs: make([]float32, n*l.ObsSize), Mask: make([]bool, n*l.Mask), Reward: make([]float64, n),
		Terminated: make([]bool, n), Truncated: make([]bool, n), Invalid: make([]bool, n), Info: make([]float64, n*k),
		FinalObs: make([]float32, n*l.ObsSize), FinalMask: make([]bool, n*l.Mask), FinalInfo: make([]float64, n*k),
		EpisodeReturn: make([]float64, n), EpisodeLength: make([]int64, n),
	}
}

func parse(t testing.TB, data []byte) *Frame {
	t.Helper()
	f := &Frame{}
	if err := f.Parse(data, DefaultBounds); err != nil {
		t.Fatalf("Parse(%x): %v", data, err)
	}
	return f
}
