package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/kubernasium/kubernasium/envs/space"
)

// request returns the frame of a step whose field a is written by write.
func request(write func(w *Writer)) []byte {
	w := NewWriter()
	w.Head(3, TypeStep, 1)
	w.Str("a")
	write(w)
	return w.Bytes()
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Data begin at multiples of 8 bytes, or of 64 from 4 KiB on, whatever comes before.
func TestArrayAlignment(t *testing.T) {
	w := NewWriter()
	for lead := range 70 {
		for _, n := range []int{0, 1, 2, 7, 8, 9, 30, 31, 32, 255, 256, 511, 512, 8190, 8191, 8192, 70000} {
			w.Reset()
			w.grow(lead)
			data := w.Array(Int64, n)
			off := len(w.Bytes()) - len(data)
			boundary := n == 8190 // where ext16 becomes ext32, 64 may be out of reach
			if n*8 >= 4096 && off%64 != 0 && !boundary || off%8 != 0 {
				t.Errorf("an array of %d after %d bytes has its data at %d", n, lead, off)
			}
			var a Array
			if err := parseArray(w.Bytes()[lead:], &a); err != nil || !a.HasShape(n) || a.DType != Int64 {
				t.Fatalf("parseArray of %d after %d bytes: %+v, %v", n, lead, a.Shape(), err)
			}
		}
	}
}

func TestMalformedFrames(t *testing.T) {
	deep := map[string]any{"t": "x", "id": 1}
	for range 20 {
		deep = map[string]any{"t": "x", "id": 1, "m": deep}
	}
	wide := map[string]any{"t": "x", "id": 1}
	for i := range 300 {
		wide[strings.Repeat("k", i+1)] = nil
	}
	step := request(func(w *Writer) { w.Array(Int64, 2) })
	for name, tc := range map[string]struct {
		data   []byte
		reason Reason
	}{
		"empty":             {nil, Malformed},
		"not a map":         {marshal(t, []int{1}), Malformed},
		"unused code":       {[]byte{0x81, 0xa1, 't', 0xc1}, Malformed},
		"key no string":     {marshal(t, map[int]int{1: 2}), Malformed},
		"nested key no str": {marshal(t, map[string]any{"t": "x", "m": map[int]int{1: 2}}), Malformed},
		"no t":              {marshal(t, map[string]any{"id": 1}), Malformed},
		"t no string":       {marshal(t, map[string]any{"t": 1}), Malformed},
		"too deep":          {marshal(t, deep), Malformed},
		"too many keys":     {marshal(t, wide), Malformed},
		"more than a map":   {append(marshal(t, map[string]any{"t": "x"}), 0), Malformed},
		"truncated":         {step[:len(step)-1], Malformed},
		"long array":        {[]byte{0x81, 0xa1, 't', 0xdd, 0xff, 0xff, 0xff, 0xff}, Malformed},
		"long map":          {[]byte{0xdf, 0xff, 0xff, 0xff, 0xff}, Malformed},
		"long extension":    {[]byte{0x81, 0xa1, 't', 0xc9, 0xff, 0xff, 0xff, 0xff, 0x4e}, Malformed},
		"negative id":       {marshal(t, map[string]any{"id": -1}), BadID},
		"id a float":        {marshal(t, map[string]any{"id": 1.5}), BadID},
	} {
		var f Frame
		var e *Error
		if err := f.Parse(tc.data, DefaultBounds); !errors.As(err, &e) || e.Reason != tc.reason {
			t.Errorf("%s: %v, want %s", name, err, tc.reason)
		}
	}
}

func TestBadArrays(t *testing.T) {
	header := func(b ...byte) []byte { return append([]byte{0x4e}, b...) }
	ext := func(payload []byte) Value { return append([]byte{0xc7, byte(len(payload) - 1)}, payload...) }
	for name, v := range map[string]Value{
		"another type of extension": ext([]byte{0x4f, 0, 7, 0, 0}),
		"no header":                 ext(header(0, 7)),
		"flags":                     ext(header(1, 1, 1, 0, 1, 0, 0, 0, 5)),
		"dtype":                     ext(header(0, 13, 1, 0, 1, 0, 0, 0, 5)),
		"nine dimensions":           ext(header(append([]byte{0, 1, 9, 0}, make([]byte, 36)...)...)),
		"long padding":              ext(header(append([]byte{0, 1, 0, 64}, make([]byte, 65)...)...)),
		"padding beyond":            ext(header(0, 1, 1, 9, 1, 0, 0, 0, 5)),
		"data too short":            ext(header(0, 1, 1, 0, 2, 0, 0, 0, 5)),
		"data too long":             ext(header(0, 1, 1, 0, 1, 0, 0, 0, 5, 5)),
		"overflow":                  ext(header(0, 7, 3, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)),
		"overflow to zero":          ext(header(0, 7, 2, 0, 0, 0, 0, 0x80, 0, 0, 0, 0x40)),
		"no extension":              {1},
	} {
		var a Array
		var e *Error
		if err := parseArray(v, &a); !errors.As(err, &e) || e.Reason != BadArray {
			t.Errorf("%s: %v, want %s", name, err, BadArray)
		}
	}
	var a Array
	if err := parseArray(ext(header(0, 7, 2, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)), &a); err != nil || a.Len() != 0 {
		t.Errorf("an array with a side of 0: %v, want none of its elements", err)
	}
}

// Actions arrive in any dtype, as plain arrays, and as a number.
func TestDecodeActions(t *testing.T) {
	l := newLayout(t, 2, boxSpace, space.Discrete{N: 300}, nil)
	array := func(dt DType, put func(b []byte)) func(w *Writer) {
		return func(w *Writer) { put(w.Array(dt, 2)) }
	}
	le := binary.LittleEndian
	for name, write := range map[string]func(w *Writer){
		"int64":   array(Int64, func(b []byte) { le.PutUint64(b, 2); le.PutUint64(b[8:], 100) }),
		"uint64":  array(Uint64, func(b []byte) { le.PutUint64(b, 2); le.PutUint64(b[8:], 100) }),
		"int32":   array(Int32, func(b []byte) { le.PutUint32(b, 2); le.PutUint32(b[4:], 100) }),
		"uint32":  array(Uint32, func(b []byte) { le.PutUint32(b, 2); le.PutUint32(b[4:], 100) }),
		"int16":   array(Int16, func(b []byte) { le.PutUint16(b, 2); le.PutUint16(b[2:], 100) }),
		"uint16":  array(Uint16, func(b []byte) { le.PutUint16(b, 2); le.PutUint16(b[2:], 100) }),
		"int8":    array(Int8, func(b []byte) { b[0], b[1] = 2, 100 }),
		"uint8":   array(Uint8, func(b []byte) { b[0], b[1] = 2, 100 }),
		"float32": array(Float32, func(b []byte) { putAll(b, []float32{2, 100}) }),
		"float64": array(Float64, func(b []byte) { putAll(b, []float64{2, 100}) }),
		"plain":   func(w *Writer) { w.List(2); w.Uint(2); w.Float(100) },
	} {
		got := make([]float32, 2)
		if err := l.DecodeActions(parse(t, request(write)), got); err != nil || got[0] != 2 || got[1] != 100 {
			t.Errorf("%s: %v, %v; want [2 100]", name, got, err)
		}
	}
	one := newLayout(t, 1, boxSpace, space.Discrete{N: 3}, nil)
	for _, x := range []any{int8(-5), int16(-300), int32(-70000), int64(-1 << 40), uint8(200), uint16(300), uint32(70000), uint64(1 << 40), float32(2), 2.5, 2, -1} {
		data := marshal(t, map[string]any{"t": "step", "a": x})
		got := make([]float32, 1)
		want := toFloat(x)
		if err := one.DecodeActions(parse(t, data), got); err != nil || got[0] != want {
			t.Errorf("%T %v: %v, %v", x, x, got, err)
		}
	}
}

func toFloat(x any) float32 {
	switch x := x.(type) {
	case int8:
		return float32(x)
	case int16:
		return float32(x)
	case int32:
		return float32(x)
	case int64:
		return float32(x)
	case uint8:
		return float32(x)
	case uint16:
		return float32(x)
	case uint32:
		return float32(x)
	case uint64:
		return float32(x)
	case float32:
		return x
	case float64:
		return float32(x)
	}
	return float32(x.(int))
}

func TestBadActions(t *testing.T) {
	l := newLayout(t, 2, boxSpace, space.Discrete{N: 3}, nil)
	dict := newLayout(t, 2, boxSpace, dictSpace, nil)
	for name, tc := range map[string]struct {
		l      *Layout
		write  func(w *Writer)
		reason Reason
	}{
		"nil":             {l, func(w *Writer) { w.Nil() }, BadField},
		"three":           {l, func(w *Writer) { w.Array(Int64, 3) }, InvalidAction},
		"a column":        {l, func(w *Writer) { w.Array(Int64, 2, 1) }, InvalidAction},
		"float16":         {l, func(w *Writer) { w.Array(Float16, 2) }, InvalidAction},
		"a short list":    {l, func(w *Writer) { w.List(1); w.Uint(1) }, InvalidAction},
		"strings":         {l, func(w *Writer) { w.List(2); w.Str("a"); w.Str("b") }, InvalidAction},
		"one number":      {l, func(w *Writer) { w.Uint(1) }, InvalidAction},
		"a string":        {l, func(w *Writer) { w.Str("a") }, BadArray},
		"list for a dict": {dict, func(w *Writer) { w.List(0) }, InvalidAction},
		"part is missing": {dict, func(w *Writer) { w.Map(0) }, InvalidAction},
	} {
		var e *Error
		err := tc.l.DecodeActions(parse(t, request(tc.write)), make([]float32, 2*tc.l.ActSize))
		if !errors.As(err, &e) || e.Reason != tc.reason {
			t.Errorf("%s: %v, want %s", name, err, tc.reason)
		}
	}
}

func randomRows(l *Layout, obs space.Space, rng *rand.Rand) *Rows {
	r := newRows(l)
	for i := range l.N {
		obs.Sample(rng, nil, r.Obs[i*l.ObsSize:(i+1)*l.ObsSize])
		r.Reward[i] = rng.NormFloat64()
		r.Terminated[i], r.Truncated[i], r.Invalid[i] = rng.IntN(3) == 0, rng.IntN(3) == 0, rng.IntN(2) == 0
		for c, col := range l.info {
			x := rng.NormFloat64()
			if col.dtype != Float64 {
				x = float64(rng.IntN(2))
			}
			r.Info[i*len(l.info)+c] = x
		}
		if r.Terminated[i] || r.Truncated[i] {
			obs.Sample(rng, nil, r.FinalObs[i*l.ObsSize:(i+1)*l.ObsSize])
			for j := range l.Mask {
				r.FinalMask[i*l.Mask+j] = rng.IntN(2) == 0
			}
			r.FinalInfo[i*len(l.info)] = rng.NormFloat64()
			r.EpisodeReturn[i], r.EpisodeLength[i] = rng.NormFloat64(), rng.Int64N(1000)
		}
	}
	for i := range r.Mask {
		r.Mask[i] = rng.IntN(2) == 0
	}
	return r
}

// What one end writes, the other reads.
func TestBatchesRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, obs := range []space.Space{boxSpace, dictSpace, space.Discrete{N: 5}, space.MultiBinary{N: 3}, space.MultiDiscrete{NVec: []int{4, 2}}} {
		for range 20 {
			n := 1 + rng.IntN(5)
			l := newLayout(t, n, obs, space.MultiBinary{N: 2}, infoColumns)
			want, got := randomRows(l, obs, rng), newRows(l)
			w := NewWriter()
			l.EncodeStep(w, 1, want, true)
			if size := l.ReplySize(); len(w.Bytes()) > size {
				t.Errorf("a reply of %d bytes, ReplySize promised %d", len(w.Bytes()), size)
			}
			f := parse(t, w.Bytes())
			if err := errors.Join(l.DecodeStep(f, got), l.DecodeEpisodes(f, got)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", obs.Describe().Kind, diff)
			}
			l.EncodeReset(w, 2, want, nil)
			if err := l.DecodeReset(parse(t, w.Bytes()), got); err != nil {
				t.Fatal(err)
			}
			if !cmp.Equal(got.Obs, want.Obs) || !cmp.Equal(got.Mask, want.Mask) || got.Reward[0] != 0 {
				t.Errorf("reset: %+v", got)
			}
		}
	}
}

// Rows of every dict part and dtype survive; so does a NaN in a reward.
func TestActionsRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, act := range []space.Space{boxSpace, dictSpace, space.Discrete{N: 5}, space.MultiBinary{N: 3}, space.MultiDiscrete{NVec: []int{4, 2}}} {
		l := newLayout(t, 3, boxSpace, act, nil)
		want, got := make([]float32, 3*act.Size()), make([]float32, 3*act.Size())
		for i := range 3 {
			act.Sample(rng, nil, want[i*act.Size():(i+1)*act.Size()])
		}
		w := NewWriter()
		l.EncodeStepRequest(w, 1, 1, want)
		if err := l.DecodeActions(parse(t, w.Bytes()), got); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: %v, %v; want %v", act.Describe().Kind, got, err, want)
		}
		none := make([]bool, 3)
		l.EncodePolicy(w, 1, want, []bool{false, true, false})
		clear(got)
		copy(want[act.Size():2*act.Size()], got) // row 1 decides nothing and keeps what it has
		if err := l.DecodePolicy(parse(t, w.Bytes()), got, none); err != nil || !cmp.Equal(want, got) || none[0] || !none[1] {
			t.Errorf("policy of %s: %v, %v, %v; want %v", act.Describe().Kind, got, none, err, want)
		}
	}
}

// What EncodeRollout writes, DecodeRollout reads, within the bytes that the sizes bound.
func TestRolloutRoundTrip(t *testing.T) {
	for _, obs := range []space.Space{boxSpace, dictSpace} {
		l := newLayout(t, 2, obs, space.Discrete{N: 3}, infoColumns)
		for name, want := range map[string]*Rollout{"all": goldenRollout(l), "no transitions": goldenRollout(l), "nothing": {Steps: 7}} {
			if name == "no transitions" {
				want.Transitions, want.Last = nil, nil
			}
			w, rows, got := NewWriter(), goldenRows(l), newRows(l)
			l.EncodeRollout(w, 1, want, rows, true)
			most := l.RolloutSize() + len(want.Idx)*l.EpisodeSize(want.Transitions != nil)
			if want.Transitions != nil {
				most += want.Steps * l.N * l.TransitionSize()
			}
			if n := len(w.Bytes()); n > most {
				t.Errorf("%s: %d bytes, bounded by %d", name, n, most)
			}
			o, err := l.DecodeRollout(parse(t, w.Bytes()), got)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, o); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if !cmp.Equal(got.EpisodeReturn, rows.EpisodeReturn) || !cmp.Equal(got.EpisodeLength, rows.EpisodeLength) || !cmp.Equal(got.Reward, rows.Reward) {
				t.Errorf("%s: rows %+v, want %+v", name, got, rows)
			}
		}
	}
}

// Counts that do not fit together are refused before memory is made for them.
func TestRolloutThatLies(t *testing.T) {
	l := newLayout(t, 2, boxSpace, space.Discrete{N: 3}, infoColumns)
	for name, tc := range map[string]struct {
		lie  func(o *Rollout)
		from string // replaced in the frame
		to   string
	}{
		"no steps":        {from: "\xa5steps\x02", to: "\xa5steps\x00"},
		"more steps":      {from: "\xa5steps\x02", to: "\xa5steps\x03"},
		"fewer steps":     {from: "\xa5steps\x02", to: "\xa5steps\x01"},
		"an end too late": {lie: func(o *Rollout) { o.At[1] = 3 }},
		"no such row":     {lie: func(o *Rollout) { o.Idx[0] = 2 }},
		"a negative row":  {lie: func(o *Rollout) { o.Idx[0] = -1 }},
		"cut is a number": {from: "\xa3cut\xc3", to: "\xa3cut\x01"},
		"no sums":         {from: "\xa3run", to: "\xa3ran"},
	} {
		w, o := NewWriter(), goldenRollout(l)
		if tc.lie != nil {
			tc.lie(o)
		}
		l.EncodeRollout(w, 1, o, goldenRows(l), true)
		data := bytes.Replace(w.Bytes(), []byte(tc.from), []byte(tc.to), 1)
		if _, err := l.DecodeRollout(parse(t, data), newRows(l)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSeedsAndMask(t *testing.T) {
	u := func(x uint64) *uint64 { return &x }
	for name, tc := range map[string]struct {
		seed any
		want []*uint64
		bad  bool
	}{
		"none":      {nil, nil, false},
		"one":       {5, []*uint64{u(5), u(6)}, false},
		"wraps":     {uint64(math.MaxUint64), []*uint64{u(math.MaxUint64), u(0)}, false},
		"list":      {[]any{7, nil}, []*uint64{u(7), nil}, false},
		"negative":  {-1, nil, true},
		"float":     {1.5, nil, true},
		"short":     {[]any{7}, nil, true},
		"bad entry": {[]any{7, "x"}, nil, true},
	} {
		got, err := parse(t, marshal(t, map[string]any{"t": "reset", "seed": tc.seed})).Seeds(2)
		if (err != nil) != tc.bad || !cmp.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tc.want)
		}
	}
	for name, tc := range map[string]struct {
		mask any
		want []bool
		bad  bool
	}{
		"none":    {nil, nil, false},
		"list":    {[]bool{true, false}, []bool{true, false}, false},
		"short":   {[]bool{true}, nil, true},
		"nothing": {[]bool{false, false}, nil, true},
		"numbers": {[]int{1, 0}, nil, true},
		"string":  {"x", nil, true},
	} {
		got, err := parse(t, marshal(t, map[string]any{"t": "reset", "mask": tc.mask})).ResetMask(2)
		if (err != nil) != tc.bad || !cmp.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tc.want)
		}
	}
	w := NewWriter()
	w.Head(3, TypeReset, 1)
	w.Str("mask")
	copy(w.Array(Bool, 2), []byte{0, 1})
	if got, err := parse(t, w.Bytes()).ResetMask(2); err != nil || !cmp.Equal(got, []bool{false, true}) {
		t.Errorf("mask as an array: %v, %v", got, err)
	}
}

// Every reason has the code that PROTOCOL.md names beside it.
func TestReasonsHaveCodes(t *testing.T) {
	for r, c := range codes {
		if r.Code() != c {
			t.Errorf("%s has code %s, want %s", r, r.Code(), c)
		}
	}
	if c := Reason("of a later version").Code(); c != Internal {
		t.Errorf("an unknown reason has code %s, want %s", c, Internal)
	}
	if unsafe.Sizeof(true) != 1 {
		t.Error("a bool takes more than the byte that putAll counts on")
	}
}
