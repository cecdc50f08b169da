package wire

import (
	"cmp"
	"encoding/binary"
	"math"
)

func putInfo(dst []byte, j int, dt DType, x float64) {
	switch dt {
	case Float64:
		binary.LittleEndian.PutUint64(dst[8*j:], math.Float64bits(x))
	case Int64:
		binary.LittleEndian.PutUint64(dst[8*j:], uint64(int64(x)))
	case Bool:
		dst[j] = 0
		if x != 0 {
			dst[j] = 1
		}
	}
}

// DecodeStep reads the reply to a step into r, without the statistics of episodes. In SAME_STEP, which has memory for
// final observations, the reply must have those of exactly the episodes that ended.
func (l *Layout) DecodeStep(f *Frame, r *Rows) error {
	if err := l.decodeStep(f, r); err != nil || len(r.FinalObs) == 0 {
		return err
	}
	var final []int32
	if f.Get("fin") != nil {
		final = l.idx
	}
	k := 0
	for i := range l.N {
		is := k < len(final) && int(final[k]) == i
		if is != (r.Terminated[i] || r.Truncated[i]) {
			return Errorf(BadField, "fin is of the rows %v, want those whose episode ended; row %d differs", final, i)
		}
		if is {
			k++
		}
	}
	return nil
}

// decodeStep is DecodeStep for replies that may lack final observations. If there are some, their rows are in l.idx.
func (l *Layout) decodeStep(f *Frame, r *Rows) error {
	if err := l.readColumn(f.Get("r"), r.Reward, 1, 0, nil); err != nil {
		return err
	}
	te, tr, inv := readFlags(f.Get("te"), r.Terminated, false, l.N), readFlags(f.Get("tr"), r.Truncated, false, l.N), readFlags(f.Get("inv"), r.Invalid, false, l.N)
	if err := cmp.Or(te, tr, inv); err != nil {
		return err
	}
	if err := l.readState(f, r); err != nil {
		return err
	}
	if r.Failed != nil {
		if err := l.readFailed(f, r); err != nil {
			return err
		}
	}
	if v := f.Get("fin"); v != nil {
		return l.readFinal(v, r)
	}
	return nil
}

// readFailed reads the rows whose environments failed.
func (l *Layout) readFailed(f *Frame, r *Rows) error {
	clear(r.Failed)
	v := f.Get("env_error")
	if v == nil {
		return nil
	}
	if err := l.readIdx(v); err != nil {
		return err
	}
	list, err := lookup(v, "msg")
	if err != nil {
		return err
	}
	n, rest, ok := arrayLen(list)
	if !ok || n != len(l.idx) {
		return Errorf(BadField, "msg is no list of %d messages", len(l.idx))
	}
	for _, i := range l.idx {
		var one Value
		one, rest = cut(rest)
		text, _, err := readKey(one, 0)
		if err != nil {
			return Errorf(BadField, "a message of env_error is no string")
		}
		r.Failed[i] = Errorf(EnvFailed, "%s", text)
	}
	return nil
}

// RecvRows reads the indices, ascending and less than n, of the environments in a reply to recv.
func RecvRows(f *Frame, n int) ([]int, error) {
	rows, err := f.Indices("idx", n)
	for j := 1; j < len(rows); j++ {
		if rows[j] <= rows[j-1] {
			return nil, Errorf(BadField, "idx holds %d after %d, want ascending numbers", rows[j], rows[j-1])
		}
	}
	return rows, err
}

// DecodeState reads the reply to restore or fork, and the rows of the last step of a rollout.
func (l *Layout) DecodeState(f *Frame, r *Rows) error {
	if err := l.decodeStep(f, r); err != nil {
		return err
	}
	run := f.Get("run")
	if run == nil {
		return Errorf(BadField, "no field run")
	}
	return l.readSums(run, r.EpisodeReturn, r.EpisodeLength, nil)
}

// DecodeEpisodes reads the statistics of the episodes that ended in a step. It does not change
// other rows: the statistics of running episodes are not sent.
func (l *Layout) DecodeEpisodes(f *Frame, r *Rows) error {
	v := f.Get("ep")
	if v == nil {
		return nil
	}
	if err := l.readIdx(v); err != nil {
		return err
	}
	return l.readSums(v, r.EpisodeReturn, r.EpisodeLength, l.idx)
}

// DecodeReset reads the reply to a reset into r.
func (l *Layout) DecodeReset(f *Frame, r *Rows) error {
	clear(r.Reward)
	clear(r.Terminated)
	clear(r.Truncated)
	clear(r.Invalid)
	if r.Failed != nil {
		if err := l.readFailed(f, r); err != nil {
			return err
		}
	}
	return l.readState(f, r)
}

// readState reads observations, action masks and infos.
func (l *Layout) readState(f *Frame, r *Rows) error {
	if err := l.readBatch(f.Get("obs"), &l.obs, r.Obs, l.ObsSize, 0, nil); err != nil {
		return err
	}
	if l.Mask > 0 {
		if err := readFlags(f.Get("mask"), r.Mask, true, l.N, l.Mask); err != nil {
			return err
		}
	}
	if len(l.info) > 0 {
		return l.readInfo(f.Get("info"), r.Info, nil)
	}
	return nil
}

// readFlags reads a boolean array of the given shape. If it is absent, all elements are set to
// absent.
func readFlags(v Value, dst []bool, absent bool, n int, rest ...int) error {
	if v == nil {
		for i := range dst {
			dst[i] = absent
		}
		return nil
	}
	var a Array
	if err := parseArray(v, &a); err != nil {
		return err
	}
	if !a.HasShape(n, rest...) || a.DType.ItemSize() != 1 {
		return Errorf(BadField, "flags of shape %v and dtype %s, want %d bytes", a.Shape(), a.DType, len(dst))
	}
	for i, b := range a.Data {
		dst[i] = b != 0
	}
	return nil
}

// readColumn reads an array of one number for each row into dst at i*stride+off.
func (l *Layout) readColumn(v Value, dst []float64, stride, off int, rows []int32) error {
	if v == nil {
		return Errorf(BadField, "a column is missing")
	}
	n := l.numRows(rows)
	var a Array
	if err := parseArray(v, &a); err != nil {
		return err
	}
	if !a.HasShape(n) || a.DType != Float64 && a.DType != Int64 && a.DType != Bool {
		return Errorf(BadField, "a column of shape %v and dtype %s, want (%d,) numbers", a.Shape(), a.DType, n)
	}
	if rows == nil {
		getFloat64s(dst[off:], stride, &a)
		return nil
	}
	one, k := a, a.DType.ItemSize()
	for j, i := range rows {
		one.Data = a.Data[j*k : (j+1)*k]
		getFloat64s(dst[int(i)*stride+off:], 1, &one)
	}
	return nil
}

func (l *Layout) readInfo(v Value, dst []float64, rows []int32) error {
	if v == nil {
		return Errorf(BadField, "infos are missing")
	}
	for c, col := range l.info {
		value, err := lookup(v, col.name)
		if err != nil {
			return err
		}
		if err := l.readColumn(value, dst, len(l.info), c, rows); err != nil {
			return err
		}
	}
	return nil
}

// readIdx reads the row indices of fin or ep into l.idx.
func (l *Layout) readIdx(v Value) error {
	idx, err := lookup(v, "idx")
	if err != nil {
		return err
	}
	var a Array
	if err := parseArray(idx, &a); err != nil {
		return err
	}
	if a.DType != Int32 || a.NDim != 1 || a.Len() > l.N {
		return Errorf(BadField, "idx of shape %v and dtype %s, want at most %d of int32", a.Shape(), a.DType, l.N)
	}
	l.idx = l.idx[:0]
	for j := range a.Len() {
		i := int32(binary.LittleEndian.Uint32(a.Data[4*j:]))
		if i < 0 || int(i) >= l.N || j > 0 && i <= l.idx[j-1] {
			return Errorf(BadField, "idx holds %d, want ascending rows below %d", i, l.N)
		}
		l.idx = append(l.idx, i)
	}
	return nil
}

func (l *Layout) readFinal(v Value, r *Rows) error {
	if len(r.FinalObs) != len(r.Obs) {
		return Errorf(BadField, "fin in a mode other than SAME_STEP")
	}
	if err := l.readIdx(v); err != nil {
		return err
	}
	obs, err := lookup(v, "obs")
	if err != nil {
		return err
	}
	if err := l.readBatch(obs, &l.obs, r.FinalObs, l.ObsSize, 0, l.idx); err != nil {
		return err
	}
	if err := l.readFinalMask(v, r.FinalMask); err != nil {
		return err
	}
	if len(l.info) == 0 {
		return nil
	}
	info, err := lookup(v, "info")
	if err != nil {
		return err
	}
	return l.readInfo(info, r.FinalInfo, l.idx)
}

// readFinalMask reads the masks of the rows in l.idx. If they are absent, all actions are permitted.
func (l *Layout) readFinalMask(fin Value, dst []bool) error {
	for _, i := range l.idx {
		for j := range l.Mask {
			dst[int(i)*l.Mask+j] = true
		}
	}
	v, err := find(fin, "mask")
	if v == nil || err != nil {
		return err
	}
	var a Array
	if err := parseArray(v, &a); err != nil {
		return err
	}
	if !a.HasShape(len(l.idx), l.Mask) || a.DType.ItemSize() != 1 {
		return Errorf(BadField, "final masks of shape %v and dtype %s, want (%d, %d) bytes", a.Shape(), a.DType, len(l.idx), l.Mask)
	}
	for k, i := range l.idx {
		for j := range l.Mask {
			dst[int(i)*l.Mask+j] = a.Data[k*l.Mask+j] != 0
		}
	}
	return nil
}
