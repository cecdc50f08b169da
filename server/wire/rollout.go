package wire

import (
	"encoding/binary"
	"math"
	"slices"
)

// Rollout is the result of many steps of a baseline, without the rows of the last step.
type Rollout struct {
	Steps int  // of the vector
	Cut   bool // fewer steps than requested

	// The episodes that ended, in order.
	At     []int32   // step in which it ended, from 1
	Idx    []int32   // its environment
	Return []float64 // sum of its rewards
	Length []int64   // number of its steps
	Info   []float64 // its last diagnostics, by column
	Last   []float32 // its last observation; empty unless there are Transitions

	Transitions *Transitions // nil unless requested
}

// Transitions has Steps × N rows, the first step first.
type Transitions struct {
	Obs        []float32 // before the action
	Mask       []bool    // of actions, at Obs; nil in a client if all are permitted
	Actions    []float32
	Reward     []float64
	Terminated []bool
	Truncated  []bool
	Invalid    []bool // the action was masked out
	None       []bool // no action was taken: the step reset the environment
}

// EpisodeSize bounds the bytes of an ended episode in the reply to a rollout.
func (l *Layout) EpisodeSize(transitions bool) int {
	n := 4 + 4 + 8 + 8 + 8*len(l.info)
	if transitions {
		n += l.obs.bytes()
	}
	return n
}

// TransitionSize returns the bytes of one row of Transitions.
func (l *Layout) TransitionSize() int { return l.obs.bytes() + l.Mask + l.act.bytes() + 8 + 4 }

// RolloutSize bounds the bytes of the reply to a rollout without episodes and transitions.
func (l *Layout) RolloutSize() int {
	const overhead = 256
	return l.ReplySize() + 16*l.N + overhead*(16+len(l.info)+2*l.obs.leaves()+l.act.leaves())
}

// EncodeRollout writes the reply to a rollout whose last step led to r. sameStep is as in
// EncodeStep.
func (l *Layout) EncodeRollout(w *Writer, id uint64, o *Rollout, r *Rows, sameStep bool) {
	l.encodeStep(w, TypeRollout+OK, id, r, sameStep, 2+count(o.Cut, len(o.Idx) > 0, o.Transitions != nil))
	w.Str("steps")
	w.Uint(uint64(o.Steps))
	if o.Cut {
		w.Str("cut")
		w.Bool(true)
	}
	l.writeRun(w, r)
	if len(o.Idx) > 0 {
		l.writeEnded(w, o)
	}
	if o.Transitions != nil {
		l.writeTransitions(w, o)
	}
}

// many returns the layout of n rows.
func (l *Layout) many(n int) *Layout {
	m := *l
	m.N = n
	return &m
}

// writeEnded writes the episodes that ended in a rollout.
func (l *Layout) writeEnded(w *Writer, o *Rollout) {
	e := l.many(len(o.Idx))
	w.Str("eps")
	w.Map(4 + count(len(l.info) > 0, o.Transitions != nil))
	w.Str("at")
	putAll(w.Array(Int32, e.N), o.At)
	w.Str("idx")
	putAll(w.Array(Int32, e.N), o.Idx)
	w.Str("r")
	putAll(w.Array(Float64, e.N), o.Return)
	w.Str("l")
	putAll(w.Array(Int64, e.N), o.Length)
	e.writeInfo(w, o.Info, nil)
	if o.Transitions != nil {
		w.Str("obs")
		e.writeBatch(w, &e.obs, o.Last, e.ObsSize, 0, nil)
	}
}

func (l *Layout) writeTransitions(w *Writer, o *Rollout) {
	x, t := l.many(o.Steps*l.N), o.Transitions
	mask := slices.Contains(t.Mask, false)
	te, tr := slices.Contains(t.Terminated, true), slices.Contains(t.Truncated, true)
	inv, none := slices.Contains(t.Invalid, true), slices.Contains(t.None, true)
	w.Str("traj")
	w.Map(3 + count(mask, te, tr, inv, none))
	w.Str("obs")
	x.writeBatch(w, &x.obs, t.Obs, x.ObsSize, 0, nil)
	x.writeMask(w, mask, t.Mask)
	w.Str("a")
	x.writeBatch(w, &x.act, t.Actions, x.ActSize, 0, nil)
	w.Str("r")
	putAll(w.Array(Float64, x.N), t.Reward)
	x.writeFlags(w, "te", te, t.Terminated)
	x.writeFlags(w, "tr", tr, t.Truncated)
	x.writeFlags(w, "inv", inv, t.Invalid)
	x.writeFlags(w, "none", none, t.None)
}

// DecodeRollout returns the result of a rollout, and reads into r the rows of the last step, with
// the returns and lengths of running episodes.
func (l *Layout) DecodeRollout(f *Frame, r *Rows) (*Rollout, error) {
	if err := l.DecodeState(f, r); err != nil {
		return nil, err
	}
	o := &Rollout{}
	steps, _, err := f.Uint("steps")
	if err != nil || steps < 1 || steps > math.MaxInt32 {
		return nil, Errorf(BadField, "a rollout of %d steps", steps)
	}
	o.Steps = int(steps)
	if o.Cut, err = f.Bool("cut"); err != nil {
		return nil, err
	}
	traj := f.Get("traj")
	if eps := f.Get("eps"); eps != nil {
		if err := l.readEnded(eps, o, traj != nil); err != nil {
			return nil, err
		}
	}
	if traj == nil {
		return o, nil
	}
	o.Transitions = &Transitions{}
	return o, l.readTransitions(traj, o)
}

// readSums reads returns and lengths of the episodes of rows, or of all.
func (l *Layout) readSums(v Value, ret []float64, length []int64, rows []int32) error {
	x, err := lookup(v, "r")
	if err != nil {
		return err
	}
	if err := l.readColumn(x, ret, 1, 0, rows); err != nil {
		return err
	}
	if x, err = lookup(v, "l"); err != nil {
		return err
	}
	var a Array
	if err := parseArray(x, &a); err != nil {
		return err
	}
	n := l.numRows(rows)
	if a.DType != Int64 || !a.HasShape(n) {
		return Errorf(BadField, "lengths of shape %v and dtype %s, want %d of int64", a.Shape(), a.DType, n)
	}
	for j := range n {
		length[rowAt(rows, j)] = int64(binary.LittleEndian.Uint64(a.Data[8*j:]))
	}
	return nil
}

func (l *Layout) readEnded(v Value, o *Rollout, last bool) error {
	var err error
	if o.Idx, err = readInt32s(v, "idx", 0, int32(l.N-1)); err != nil {
		return err
	}
	if o.At, err = readInt32s(v, "at", 1, int32(o.Steps)); err != nil {
		return err
	}
	e := l.many(len(o.Idx))
	if len(o.At) != e.N {
		return Errorf(BadField, "%d ends of %d episodes", len(o.At), e.N)
	}
	o.Return, o.Length = make([]float64, e.N), make([]int64, e.N)
	if err := e.readSums(v, o.Return, o.Length, nil); err != nil {
		return err
	}
	if len(l.info) > 0 {
		info, err := lookup(v, "info")
		if err != nil {
			return err
		}
		if err := roomFor(info, "info", e.N, len(l.info)); err != nil {
			return err
		}
		o.Info = make([]float64, e.N*len(l.info))
		if err := e.readInfo(info, o.Info, nil); err != nil {
			return err
		}
	}
	if !last {
		return nil
	}
	obs, err := lookup(v, "obs")
	if err != nil {
		return err
	}
	if err := roomFor(obs, "obs", e.N, l.ObsSize); err != nil {
		return err
	}
	o.Last = make([]float32, e.N*l.ObsSize)
	return e.readBatch(obs, &e.obs, o.Last, e.ObsSize, 0, nil)
}

// readInt32s reads the array at key in v, whose elements lie between least and most. It has at most
// as many elements as v has bytes.
func readInt32s(v Value, key string, least, most int32) ([]int32, error) {
	x, err := lookup(v, key)
	if err != nil {
		return nil, err
	}
	var a Array
	if err := parseArray(x, &a); err != nil {
		return nil, err
	}
	if a.DType != Int32 || a.NDim != 1 {
		return nil, Errorf(BadField, "%s of shape %v and dtype %s, want one dimension of int32", key, a.Shape(), a.DType)
	}
	out := make([]int32, a.Len())
	for i := range out {
		if out[i] = int32(binary.LittleEndian.Uint32(a.Data[4*i:])); out[i] < least || out[i] > most {
			return nil, Errorf(BadField, "%s holds %d, want %d to %d", key, out[i], least, most)
		}
	}
	return out, nil
}

// roomFor returns an error for a value that is too short for n rows of the given width, with at
// least a byte for each number, before memory is allocated for them.
func roomFor(v Value, key string, n, size int) error {
	if int64(n)*int64(size) > int64(len(v)) {
		return Errorf(BadField, "%s of %d bytes, want %d rows of %d numbers", key, len(v), n, size)
	}
	return nil
}

func (l *Layout) readTransitions(v Value, o *Rollout) error {
	t := o.Transitions
	r, err := lookup(v, "r")
	if err != nil {
		return err
	}
	var a Array
	if err := parseArray(r, &a); err != nil {
		return err
	}
	if int64(a.Len()) != int64(o.Steps)*int64(l.N) { // check before allocating memory of that size
		return Errorf(BadField, "%d rewards of %d steps of %d environments", a.Len(), o.Steps, l.N)
	}
	x := l.many(a.Len())
	t.Reward = make([]float64, x.N)
	if err := x.readColumn(r, t.Reward, 1, 0, nil); err != nil {
		return err
	}
	for _, part := range []struct {
		key  string
		node *node
		size int
		dst  *[]float32
	}{{"obs", &x.obs, x.ObsSize, &t.Obs}, {"a", &x.act, x.ActSize, &t.Actions}} {
		value, err := lookup(v, part.key)
		if err != nil {
			return err
		}
		if err := roomFor(value, part.key, x.N, part.size); err != nil {
			return err
		}
		*part.dst = make([]float32, part.size*x.N)
		if err := x.readBatch(value, part.node, *part.dst, part.size, 0, nil); err != nil {
			return err
		}
	}
	return x.readMarks(v, t)
}

// readMarks reads the flags and masks of transitions, which are absent if all elements are equal.
func (l *Layout) readMarks(v Value, t *Transitions) error {
	mask, err := find(v, "mask")
	if err != nil {
		return err
	}
	if l.Mask > 0 && mask != nil {
		if err := roomFor(mask, "mask", l.N, l.Mask); err != nil {
			return err
		}
		t.Mask = make([]bool, l.N*l.Mask)
		if err := readFlags(mask, t.Mask, true, l.N, l.Mask); err != nil {
			return err
		}
	}
	for key, dst := range map[string]*[]bool{"te": &t.Terminated, "tr": &t.Truncated, "inv": &t.Invalid, "none": &t.None} {
		value, err := find(v, key)
		if err != nil {
			return err
		}
		*dst = make([]bool, l.N)
		if err := readFlags(value, *dst, false, l.N); err != nil {
			return err
		}
	}
	return nil
}
