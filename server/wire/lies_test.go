package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image/color"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/space"
)

// parts writes the fields of a map in the order of their names; one that is nil is left out.
type parts map[string]func(w *Writer)

func (p parts) write(w *Writer) {
	names := slices.Sorted(maps.Keys(p))
	names = slices.DeleteFunc(names, func(name string) bool { return p[name] == nil })
	w.Map(len(names))
	for _, name := range names {
		w.Str(name)
		p[name](w)
	}
}

func (p parts) with(name string, write func(w *Writer)) parts {
	q := maps.Clone(p)
	q[name] = write
	return q
}

func (p parts) frame(kind string) []byte {
	w := NewWriter()
	p.with("t", func(w *Writer) { w.Str(kind) }).with("id", func(w *Writer) { w.Uint(1) }).write(w)
	return w.Bytes()
}

// zeros writes an array of zeros.
func zeros(dt DType, shape ...int) func(w *Writer) {
	return func(w *Writer) { clear(w.Array(dt, shape...)) }
}

func rowNumbers(rows ...int32) func(w *Writer) {
	return func(w *Writer) { putAll(w.Array(Int32, len(rows)), rows) }
}

func bools(flags ...bool) func(w *Writer) {
	return func(w *Writer) { putAll(w.Array(Bool, len(flags)), flags) }
}

func number1(w *Writer) { w.Uint(1) }

// Of a step's reply to three environments, each field is altered in turn: nothing of a wrong
// shape, dtype or row is read.
func TestStepsThatLie(t *testing.T) {
	l := newLayout(t, 3, space.NewBox(0, 1, 2), space.Discrete{N: 2}, []Column{{Name: "x", DType: "float64"}})
	info := func(n int) parts { return parts{"x": zeros(Float64, n)} }
	final := parts{"idx": rowNumbers(0, 2), "obs": zeros(Float32, 2, 2), "mask": zeros(Bool, 2, 2), "info": info(2).write}
	ended := parts{"idx": rowNumbers(0, 2), "r": zeros(Float64, 2), "l": zeros(Int64, 2)}
	reply := parts{
		"r": zeros(Float64, 3), "te": bools(true, false, false), "tr": bools(false, false, true), "inv": zeros(Bool, 3), "obs": zeros(Float32, 3, 2),
		"mask": zeros(Bool, 3, 2), "info": info(3).write, "fin": final.write, "ep": ended.write,
	}
	decode := func(p parts, r *Rows) error {
		f := parse(t, p.frame("step.ok"))
		return errors.Join(l.DecodeStep(f, r), l.DecodeEpisodes(f, r))
	}
	if err := decode(reply, newRows(l)); err != nil {
		t.Fatalf("a faithful reply: %v", err)
	}
	for name, p := range map[string]parts{
		"no rewards":                  reply.with("r", nil),
		"rewards of int8":             reply.with("r", zeros(Int8, 3)),
		"two rewards":                 reply.with("r", zeros(Float64, 2)),
		"rewards in two dimensions":   reply.with("r", zeros(Float64, 3, 1)),
		"rewards a number":            reply.with("r", number1),
		"te of float32":               reply.with("te", zeros(Float32, 3)),
		"two te":                      reply.with("te", zeros(Bool, 2)),
		"two tr":                      reply.with("tr", zeros(Bool, 2)),
		"two inv":                     reply.with("inv", zeros(Bool, 2)),
		"no observations":             reply.with("obs", nil),
		"observations of three":       reply.with("obs", zeros(Float32, 3, 3)),
		"observations of two rows":    reply.with("obs", zeros(Float32, 2, 2)),
		"observations of bfloat16":    reply.with("obs", zeros(BFloat16, 3, 2)),
		"masks of float64":            reply.with("mask", zeros(Float64, 3, 2)),
		"masks of three actions":      reply.with("mask", zeros(Bool, 3, 3)),
		"masks in three dimensions":   reply.with("mask", zeros(Bool, 3, 2, 1)),
		"no infos":                    reply.with("info", nil),
		"infos a number":              reply.with("info", number1),
		"no column x":                 reply.with("info", parts{"y": zeros(Float64, 3)}.write),
		"column of int8":              reply.with("info", parts{"x": zeros(Int8, 3)}.write),
		"fin a number":                reply.with("fin", number1),
		"fin without rows":            reply.with("fin", final.with("idx", nil).write),
		"fin of rows as int64":        reply.with("fin", final.with("idx", zeros(Int64, 2)).write),
		"fin of rows as a matrix":     reply.with("fin", final.with("idx", zeros(Int32, 2, 1)).write),
		"fin of four rows":            reply.with("fin", final.with("idx", rowNumbers(0, 1, 2, 3)).write),
		"fin of descending rows":      reply.with("fin", final.with("idx", rowNumbers(2, 0)).write),
		"fin of one row twice":        reply.with("fin", final.with("idx", rowNumbers(1, 1)).write),
		"fin of a fourth row":         reply.with("fin", final.with("idx", rowNumbers(0, 3)).write),
		"fin of other rows":           reply.with("te", bools(false, true, false)),
		"fin of fewer rows":           reply.with("te", bools(true, true, false)),
		"fin of a running row":        reply.with("te", nil),
		"no fin of rows that ended":   reply.with("fin", nil),
		"fin of row -1":               reply.with("fin", final.with("idx", rowNumbers(-1, 0)).write),
		"fin without observations":    reply.with("fin", final.with("obs", nil).write),
		"fin with three observations": reply.with("fin", final.with("obs", zeros(Float32, 3, 2)).write),
		"fin with masks of three":     reply.with("fin", final.with("mask", zeros(Bool, 2, 3)).write),
		"fin with masks of float32":   reply.with("fin", final.with("mask", zeros(Float32, 2, 2)).write),
		"fin with mask a number":      reply.with("fin", final.with("mask", number1).write),
		"fin without infos":           reply.with("fin", final.with("info", nil).write),
		"fin with three infos":        reply.with("fin", final.with("info", info(3).write).write),
		"ep without rows":             reply.with("ep", ended.with("idx", nil).write),
		"ep without returns":          reply.with("ep", ended.with("r", nil).write),
		"ep with three returns":       reply.with("ep", ended.with("r", zeros(Float64, 3)).write),
		"ep without lengths":          reply.with("ep", ended.with("l", nil).write),
		"ep with lengths a number":    reply.with("ep", ended.with("l", number1).write),
		"ep with three lengths":       reply.with("ep", ended.with("l", zeros(Int64, 3)).write),
		"ep with lengths of float64":  reply.with("ep", ended.with("l", zeros(Float64, 2)).write),
	} {
		var e *Error
		if err := decode(p, newRows(l)); !errors.As(err, &e) || e.Reason != BadField && e.Reason != BadArray {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	r := newRows(l)
	r.FinalObs, r.FinalMask, r.FinalInfo = nil, nil, nil
	if err := decode(reply, r); err == nil {
		t.Error("final observations in a mode other than SAME_STEP: no error")
	}
	// Without a mask of its own, the last moment permits everything.
	r = newRows(l)
	if err := decode(reply.with("fin", final.with("mask", nil).write), r); err != nil || !cmp.Equal(r.FinalMask, []bool{true, true, false, false, true, true}) {
		t.Errorf("final masks %v, %v; want those of rows 0 and 2 true", r.FinalMask, err)
	}
	// A reset's reply clears what a step alone gives.
	for i := range 3 {
		r.Reward[i], r.Terminated[i], r.Truncated[i], r.Invalid[i] = 1, true, true, true
	}
	if err := l.DecodeReset(parse(t, reply.frame("reset.ok")), r); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if r.Reward[i] != 0 || r.Terminated[i] || r.Truncated[i] || r.Invalid[i] {
			t.Errorf("row %d after a reset: reward %v, flags %v %v %v; want none", i, r.Reward[i], r.Terminated[i], r.Truncated[i], r.Invalid[i])
		}
	}
}

// The same of a rollout of two steps of two environments in which two episodes ended.
func TestRolloutsThatLie(t *testing.T) {
	l := newLayout(t, 2, space.NewBox(0, 1, 2), space.Discrete{N: 2}, []Column{{Name: "x", DType: "float64"}})
	info := func(n int) parts { return parts{"x": zeros(Float64, n)} }
	run := parts{"r": zeros(Float64, 2), "l": zeros(Int64, 2)}
	ended := parts{"idx": rowNumbers(0, 1, 0), "at": rowNumbers(1, 1, 2), "r": zeros(Float64, 3), "l": zeros(Int64, 3), "info": info(3).write, "obs": zeros(Float32, 3, 2)}
	traj := parts{"obs": zeros(Float32, 4, 2), "a": zeros(Int64, 4), "r": zeros(Float64, 4), "mask": zeros(Bool, 4, 2), "te": zeros(Bool, 4), "tr": zeros(Bool, 4), "inv": zeros(Bool, 4), "none": zeros(Bool, 4)}
	reply := parts{
		"r": zeros(Float64, 2), "obs": zeros(Float32, 2, 2), "info": info(2).write, "run": run.write,
		"steps": func(w *Writer) { w.Uint(2) }, "eps": ended.write, "traj": traj.write,
	}
	decode := func(p parts) error {
		_, err := l.DecodeRollout(parse(t, p.frame("rollout.ok")), newRows(l))
		return err
	}
	if err := decode(reply); err != nil {
		t.Fatalf("a faithful reply: %v", err)
	}
	for name, p := range map[string]parts{
		"no rewards":              reply.with("r", nil),
		"run without returns":     reply.with("run", run.with("r", nil).write),
		"run without lengths":     reply.with("run", run.with("l", nil).write),
		"run of three":            reply.with("run", run.with("r", zeros(Float64, 3)).write),
		"run of three lengths":    reply.with("run", run.with("l", zeros(Int64, 3)).write),
		"run of float lengths":    reply.with("run", run.with("l", zeros(Float64, 2)).write),
		"run of length a number":  reply.with("run", run.with("l", number1).write),
		"steps a string":          reply.with("steps", func(w *Writer) { w.Str("2") }),
		"no rows":                 reply.with("eps", ended.with("idx", nil).write),
		"rows as int64":           reply.with("eps", ended.with("idx", zeros(Int64, 3)).write),
		"rows as a matrix":        reply.with("eps", ended.with("idx", zeros(Int32, 3, 1)).write),
		"rows a number":           reply.with("eps", ended.with("idx", number1).write),
		"no ends":                 reply.with("eps", ended.with("at", nil).write),
		"two ends of three":       reply.with("eps", ended.with("at", rowNumbers(1, 1)).write),
		"ends at step 0":          reply.with("eps", ended.with("at", rowNumbers(0, 1, 2)).write),
		"two returns of three":    reply.with("eps", ended.with("r", zeros(Float64, 2)).write),
		"no infos":                reply.with("eps", ended.with("info", nil).write),
		"two infos of three":      reply.with("eps", ended.with("info", info(2).write).write),
		"infos a number":          reply.with("eps", ended.with("info", number1).write),
		"no last observations":    reply.with("eps", ended.with("obs", nil).write),
		"last observations of 3":  reply.with("eps", ended.with("obs", zeros(Float32, 3, 3)).write),
		"a last observation of 0": reply.with("eps", ended.with("obs", zeros(Float32, 0)).write),
		"transitions a number":    reply.with("traj", number1),
		"no rewards of steps":     reply.with("traj", traj.with("r", nil).write),
		"rewards a number":        reply.with("traj", traj.with("r", number1).write),
		"rewards of int8":         reply.with("traj", traj.with("r", zeros(Int8, 4)).write),
		"no observations":         reply.with("traj", traj.with("obs", nil).write),
		"observations of 3":       reply.with("traj", traj.with("obs", zeros(Float32, 4, 3)).write),
		"an observation of 0":     reply.with("traj", traj.with("obs", zeros(Float32, 0)).write),
		"no actions":              reply.with("traj", traj.with("a", nil).write),
		"two actions a step":      reply.with("traj", traj.with("a", zeros(Int64, 4, 2)).write),
		"a mask of nothing":       reply.with("traj", traj.with("mask", zeros(Bool, 0)).write),
		"masks of three":          reply.with("traj", traj.with("mask", zeros(Bool, 4, 3)).write),
		"te of two":               reply.with("traj", traj.with("te", zeros(Bool, 2)).write),
		"tr of two":               reply.with("traj", traj.with("tr", zeros(Bool, 2)).write),
		"inv of two":              reply.with("traj", traj.with("inv", zeros(Bool, 2)).write),
		"none of two":             reply.with("traj", traj.with("none", zeros(Bool, 2)).write),
	} {
		var e *Error
		if err := decode(p); !errors.As(err, &e) || e.Reason != BadField && e.Reason != BadArray {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	if err := decode(reply.with("traj", nil).with("eps", ended.with("obs", nil).write)); err != nil {
		t.Errorf("without transitions nothing needs last observations: %v", err)
	}
}

// valuesOfEveryType are a value of every MessagePack type with the longest form of its length.
var valuesOfEveryType = map[string][]byte{
	"nil": {0xc0}, "true": {0xc3}, "fixint": {0x07}, "negative fixint": {0xff}, "uint8": {0xcc, 1}, "uint16": {0xcd, 1, 2}, "uint32": {0xce, 1, 2, 3, 4},
	"uint64": {0xcf, 1, 2, 3, 4, 5, 6, 7, 8}, "int8": {0xd0, 1}, "int16": {0xd1, 1, 2}, "int32": {0xd2, 1, 2, 3, 4}, "int64": {0xd3, 1, 2, 3, 4, 5, 6, 7, 8},
	"float32": {0xca, 1, 2, 3, 4}, "float64": {0xcb, 1, 2, 3, 4, 5, 6, 7, 8},
	"fixstr": {0xa2, 'a', 'b'}, "str8": {0xd9, 2, 'a', 'b'}, "str16": {0xda, 0, 2, 'a', 'b'}, "str32": {0xdb, 0, 0, 0, 2, 'a', 'b'},
	"bin8": {0xc4, 2, 1, 2}, "bin16": {0xc5, 0, 2, 1, 2}, "bin32": {0xc6, 0, 0, 0, 2, 1, 2},
	"fixarray": {0x92, 1, 0xc0}, "array16": {0xdc, 0, 2, 1, 2}, "array32": {0xdd, 0, 0, 0, 2, 1, 2},
	"fixmap": {0x81, 0xa1, 'k', 1}, "map16": {0xde, 0, 1, 0xd9, 1, 'k', 1}, "map32": {0xdf, 0, 0, 0, 1, 0xdb, 0, 0, 0, 1, 'k', 1},
	"fixext1": {0xd4, 5, 1}, "fixext2": {0xd5, 5, 1, 2}, "fixext4": {0xd6, 5, 1, 2, 3, 4}, "fixext8": {0xd7, 5, 1, 2, 3, 4, 5, 6, 7, 8},
	"fixext16": append([]byte{0xd8, 5}, make([]byte, 16)...), "ext8": {0xc7, 1, 5, 1}, "ext16": {0xc8, 0, 1, 5, 1}, "ext32": {0xc9, 0, 0, 0, 1, 5, 1},
}

// Every value of MessagePack is passed over whole, and no beginning of one is taken for it. The
// lengths are those of the specification.
func TestPrefixesAreMalformed(t *testing.T) {
	for name, value := range valuesOfEveryType {
		data := slices.Concat([]byte{0x82, 0xa1, 't', 0xa1, 'x', 0xa1, 'v'}, value)
		if f := parse(t, data); !bytes.Equal(f.Get("v"), value) && name != "nil" {
			t.Errorf("%s: value %x, want %x", name, f.Get("v"), value)
		}
		for n := range data {
			var e *Error
			if err := new(Frame).Parse(data[:n], DefaultBounds); !errors.As(err, &e) || e.Reason != Malformed {
				t.Errorf("%s, the first %d of %d bytes: %v, want %s", name, n, len(data), err, Malformed)
			}
		}
	}
	for _, data := range [][]byte{{0xde, 0, 1, 0xa1, 't', 0xa1, 'x'}, {0xdf, 0, 0, 0, 1, 0xa1, 't', 0xa1, 'x'}} {
		if f := parse(t, data); string(f.Type) != "x" {
			t.Errorf("frame %x: t is %q, want x", data, f.Type)
		}
	}
}

// The bounds hold inside, too, and what is at the bound passes.
func TestBounds(t *testing.T) {
	value := func(v []byte) []byte { return slices.Concat([]byte{0x82, 0xa1, 't', 0xa1, 'x', 0xa1, 'v'}, v) }
	nested := func(depth int) []byte { return value(append(bytes.Repeat([]byte{0x91}, depth), 1)) }
	keys := func(n int) []byte {
		return value(append([]byte{0x80 | byte(n)}, bytes.Repeat([]byte{0xa1, 'k', 1}, n)...))
	}
	for name, tc := range map[string]struct {
		data []byte
		ok   bool
	}{
		"3 arrays within the frame": {nested(3), true}, "4 arrays within the frame": {nested(4), false},
		"a map of 5 keys": {keys(5), true}, "a map of 6 keys": {keys(6), false},
		"a map at the depth": {value([]byte{0x91, 0x91, 0x81, 0xa1, 'k', 1}), true}, "a map beyond": {value([]byte{0x91, 0x91, 0x91, 0x81, 0xa1, 'k', 1}), false},
	} {
		if err := new(Frame).Parse(tc.data, Bounds{Depth: 4, MapKeys: 5}); (err == nil) != tc.ok {
			t.Errorf("%s: %v, want it accepted: %v", name, err, tc.ok)
		}
	}
}

// A Frame that is used again has nothing of the frame before.
func TestFrameIsUsedAgain(t *testing.T) {
	f := parse(t, marshal(t, map[string]any{"t": "x", "id": 7, "v": 1}))
	if err := f.Parse([]byte{0x80}, DefaultBounds); err == nil || f.Type != nil || f.ID != 0 || f.Get("v") != nil {
		t.Errorf("an empty map after another frame: %v, t %q, id %d, v %x; want an error and nothing", err, f.Type, f.ID, f.Get("v"))
	}
}

// Rows and seeds come in any form of a list that MessagePack has.
func TestListsOfEveryForm(t *testing.T) {
	for _, list := range [][]byte{{0x92, 2, 0}, {0xdc, 0, 2, 2, 0}, {0xdd, 0, 0, 0, 2, 2, 0}} {
		f := parse(t, slices.Concat([]byte{0x83, 0xa1, 't', 0xa1, 'x', 0xa2, 't', 'o'}, list, []byte{0xa4, 's', 'e', 'e', 'd'}, list))
		if rows, err := f.Rows(3); err != nil || !cmp.Equal(rows, []int{2, 0}) {
			t.Errorf("to %x: %v, %v; want 2 and 0", list, rows, err)
		}
		if seeds, err := f.Seeds(2); err != nil || *seeds[0] != 2 || *seeds[1] != 0 {
			t.Errorf("seed %x: %v, %v; want 2 and 0", list, seeds, err)
		}
	}
	for name, to := range map[string][]byte{"none": {0x90}, "four of three": {0x94, 0, 1, 2, 0}, "a number": {1}} {
		f := parse(t, slices.Concat([]byte{0x82, 0xa1, 't', 0xa1, 'x', 0xa2, 't', 'o'}, to))
		if rows, err := f.Rows(3); err == nil {
			t.Errorf("to, %s: %v, want a refusal", name, rows)
		}
	}
	f := parse(t, []byte{0x82, 0xa1, 't', 0xa1, 'x', 0xa4, 'm', 'a', 's', 'k', 0x92, 0xc3, 1})
	if mask, err := f.ResetMask(2); err == nil {
		t.Errorf("a reset mask with a number: %v, want a refusal", mask)
	}
}

// The sizes that limits are checked with bound what is written, and not by much: four times.
func TestSizesBoundReplies(t *testing.T) {
	obs := space.Dict{Fields: []space.Field{{Key: "nodes", Space: space.NewBox(0, 1, 30, 20)}, {Key: "pod", Space: space.NewBox(0, 1, 500)}}}
	l := newLayout(t, 8, obs, space.MultiDiscrete{NVec: []int{3, 4}}, infoColumns)
	r := newRows(l)
	for i := range r.Terminated {
		r.Terminated[i], r.Truncated[i], r.Invalid[i] = true, true, true
	}
	w := NewWriter()
	l.EncodeStep(w, 1, r, true)
	if n := len(w.Bytes()); l.ReplySize() < n || l.ReplySize() > 4*n {
		t.Errorf("a step's reply takes %d bytes, bounded by %d", n, l.ReplySize())
	}
	const steps = 40
	x := l.many(steps * l.N)
	o := &Rollout{Steps: steps, Transitions: &Transitions{
		Obs: make([]float32, x.N*l.ObsSize), Mask: make([]bool, x.N*l.Mask), Actions: make([]float32, x.N*l.ActSize), Reward: make([]float64, x.N),
		Terminated: make([]bool, x.N), Truncated: make([]bool, x.N), Invalid: make([]bool, x.N), None: make([]bool, x.N),
	}}
	for i := range x.N { // every step ends every episode
		o.At, o.Idx = append(o.At, int32(1+i/l.N)), append(o.Idx, int32(i%l.N))
		o.Transitions.Terminated[i], o.Transitions.Truncated[i], o.Transitions.Invalid[i], o.Transitions.None[i] = true, true, true, true
	}
	o.Return, o.Length = make([]float64, x.N), make([]int64, x.N)
	o.Info, o.Last = make([]float64, x.N*len(infoColumns)), make([]float32, x.N*l.ObsSize)
	w.Reset()
	l.EncodeRollout(w, 1, o, r, true)
	bound := l.RolloutSize() + x.N*(l.TransitionSize()+l.EpisodeSize(true))
	if n := len(w.Bytes()); bound < n || bound > 2*n {
		t.Errorf("a rollout's reply takes %d bytes, bounded by %d", n, bound)
	}
}

// What has too many dimensions for an array, and a column of no number, has no layout.
func TestNoLayout(t *testing.T) {
	if _, err := NewLayout(1, space.NewBox(0, 1, 1, 1, 1, 1, 1, 1, 1, 1), space.Discrete{N: 2}, nil); err == nil {
		t.Error("a space of eight dimensions beside that of the rows: no error")
	}
	for _, dtype := range []string{"float32", "complex64", ""} {
		if _, err := NewLayout(1, space.NewBox(0, 1, 1), space.Discrete{N: 2}, []Column{{Name: "x", DType: dtype}}); err == nil {
			t.Errorf("a column of dtype %q: no error", dtype)
		}
	}
}

func TestImage(t *testing.T) {
	picture := func(write func(w *Writer)) *Frame { return parse(t, parts{"frame": write}.frame("render.ok")) }
	img, err := picture(func(w *Writer) { copy(w.Array(Uint8, 1, 2, 3), []byte{1, 2, 3, 4, 5, 6}) }).Image("frame")
	if err != nil || img.Bounds().Dx() != 2 || img.Bounds().Dy() != 1 || img.RGBAAt(0, 0) != (color.RGBA{1, 2, 3, 255}) || img.RGBAAt(1, 0) != (color.RGBA{4, 5, 6, 255}) {
		t.Errorf("%v, %v; want two opaque pixels", img, err)
	}
	for name, write := range map[string]func(w *Writer){
		"no colours": zeros(Uint8, 2, 2), "four colours": zeros(Uint8, 2, 2, 4), "floats": zeros(Float32, 2, 2, 3), "nothing": zeros(Uint8, 0, 2, 3), "a number": number1, "absent": nil,
	} {
		if _, err := picture(write).Image("frame"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReadAll(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	for name, r := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)), "with the end": iotest.DataErrReader(strings.NewReader(text))} {
		if got, err := ReadAll(r, []byte("old"), len(text)); err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(text))
		}
	}
	if _, err := ReadAll(strings.NewReader(text), nil, len(text)-1); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("a byte more than the limit: %v, want ErrFrameTooLarge", err)
	}
	if _, err := ReadAll(iotest.ErrReader(io.ErrUnexpectedEOF), nil, 10); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a reader that fails: %v, want its error", err)
	}
	kept := make([]byte, 0, 1<<15)
	if got, _ := ReadAll(strings.NewReader(text), kept, len(text)); &got[:1][0] != &kept[:1][0] {
		t.Error("a buffer with room is not used")
	}
}

// Maps travel with sorted keys, so that equal messages are equal bytes.
func TestMapsAreSorted(t *testing.T) {
	w := NewWriter()
	if err := w.Encode(map[string]any{"d": 1, "b": 2, "a": 3, "c": 4}); err != nil {
		t.Fatal(err)
	}
	if want := "\x84\xa1a\x03\xa1b\x02\xa1c\x04\xa1d\x01"; string(w.Bytes()) != want {
		t.Errorf("%x, want %x", w.Bytes(), want)
	}
}

// An image's size does not overflow on the way: 2³¹ × 2³¹ × 4 elements of a byte are 2⁶⁴, no 0.
func TestArrayOf2To64Bytes(t *testing.T) {
	payload := []byte{0, byte(Uint8), 3, 0}
	for _, side := range []uint32{1 << 31, 1 << 31, 4} {
		payload = binary.LittleEndian.AppendUint32(payload, side)
	}
	v := append([]byte{0xc7, byte(len(payload)), ArrayExt}, payload...)
	if err := parseArray(v, &Array{}); err == nil {
		t.Error("no error")
	}
}
