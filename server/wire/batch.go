package wire

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// Rows are the rows of a batch, in memory that belongs to an [envs.VecEnv]. The fields are
// those of envs.Batch, which converts to it.
//
// [envs.VecEnv]: https://pkg.go.dev/github.com/kubernasium/kubernasium/envs#VecEnv
type Rows struct {
	Obs        []float32
	Mask       []bool
	Reward     []float64
	Terminated []bool
	Truncated  []bool
	Invalid    []bool
	Info       []float64

	FinalObs  []float32
	FinalMask []bool
	FinalInfo []float64

	EpisodeReturn []float64
	EpisodeLength []int64

	Failed []error // nil unless the vector isolates failures
}

// EncodeStep writes the reply to a step. If sameStep is set, it contains fin, with the final
// observations of the episodes that ended.
func (l *Layout) EncodeStep(w *Writer, id uint64, r *Rows, sameStep bool) {
	l.encodeStep(w, TypeStep+OK, id, r, sameStep, 0)
}

// encodeStep writes the fields of a step in a message of the given kind, with room for more fields.
func (l *Layout) encodeStep(w *Writer, kind string, id uint64, r *Rows, sameStep bool, more int) {
	done := l.done(r)
	fin, failed := sameStep && len(done) > 0, anyFailed(r)
	l.encodeState(w, kind, id, r, more+count(fin, len(done) > 0, failed))
	if fin {
		l.writeFinal(w, r)
	}
	if len(done) > 0 {
		l.writeEpisodes(w, r)
	}
	if failed {
		l.writeFailed(w, r)
	}
}

// EncodeRecv writes the reply to recv: the rows of a step of the environments idx, as many as the layout has.
func (l *Layout) EncodeRecv(w *Writer, id uint64, idx []int, r *Rows, sameStep bool) {
	l.encodeStep(w, TypeRecv+OK, id, r, sameStep, 1)
	w.Str("idx")
	writeInts(w, idx)
}

// writeInts writes an array of int32.
func writeInts(w *Writer, values []int) {
	dst := w.Array(Int32, len(values))
	for j, i := range values {
		binary.LittleEndian.PutUint32(dst[4*j:], uint32(i))
	}
}

func anyFailed(r *Rows) bool {
	return slices.ContainsFunc(r.Failed, func(err error) bool { return err != nil })
}

// writeFailed writes the rows whose environments failed.
func (l *Layout) writeFailed(w *Writer, r *Rows) {
	l.idx = l.idx[:0]
	for i, err := range r.Failed {
		if err != nil {
			l.idx = append(l.idx, int32(i))
		}
	}
	w.Str("env_error")
	w.Map(2)
	l.writeIdx(w)
	w.Str("msg")
	w.List(len(l.idx))
	for _, i := range l.idx {
		w.Str(failureText(r.Failed[i]))
	}
}

// failureText returns the message of a failure, of bounded length.
func failureText(err error) string {
	text := err.Error()
	if e, ok := err.(*Error); ok {
		text = e.Msg
	}
	if len(text) > maxFailure {
		text = strings.ToValidUTF8(text[:maxFailure-len("…")], "") + "…"
	}
	return text
}

// maxFailure bounds the length of the message of a row that failed.
const maxFailure = 256

// encodeState writes the state of the environments in a message of the given kind, with room for
// more fields.
func (l *Layout) encodeState(w *Writer, kind string, id uint64, r *Rows, more int) {
	te, tr, inv := contains(r.Terminated, true), contains(r.Truncated, true), contains(r.Invalid, true)
	mask := contains(r.Mask, false)
	w.Head(4+more+count(te, tr, inv, mask, len(l.info) > 0), kind, id)
	w.Str("obs")
	l.writeBatch(w, &l.obs, r.Obs, l.ObsSize, 0, nil)
	w.Str("r")
	putAll(w.Array(Float64, l.N), r.Reward)
	l.writeFlags(w, "te", te, r.Terminated)
	l.writeFlags(w, "tr", tr, r.Truncated)
	l.writeFlags(w, "inv", inv, r.Invalid)
	l.writeMask(w, mask, r.Mask)
	l.writeInfo(w, r.Info, nil)
}

// EncodeReset writes the reply to a reset. seed is the seed drawn by the server, or nil.
func (l *Layout) EncodeReset(w *Writer, id uint64, r *Rows, seed *uint64) {
	mask, failed := contains(r.Mask, false), anyFailed(r)
	w.Head(3+count(mask, len(l.info) > 0, seed != nil, failed), TypeReset+OK, id)
	w.Str("obs")
	l.writeBatch(w, &l.obs, r.Obs, l.ObsSize, 0, nil)
	l.writeMask(w, mask, r.Mask)
	l.writeInfo(w, r.Info, nil)
	if seed != nil {
		w.Str("seed")
		w.Uint(*seed)
	}
	if failed {
		l.writeFailed(w, r)
	}
}

// EncodeState writes the reply to restore or fork, the state of the environments: the fields of a
// step except those of ended episodes, and the returns and lengths of the running episodes.
func (l *Layout) EncodeState(w *Writer, kind string, id uint64, r *Rows) {
	l.encodeState(w, kind+OK, id, r, 1)
	l.writeRun(w, r)
}

// writeRun writes the returns and lengths of the rows' running episodes.
func (l *Layout) writeRun(w *Writer, r *Rows) {
	w.Str("run")
	w.Map(2)
	w.Str("r")
	putAll(w.Array(Float64, l.N), r.EpisodeReturn)
	w.Str("l")
	putAll(w.Array(Int64, l.N), r.EpisodeLength)
}

// contains reports whether a flag is want, by vectors.
func contains(flags []bool, want bool) bool {
	var b byte
	if want {
		b = 1
	}
	return bytes.IndexByte(bytesOf(flags), b) >= 0
}

func count(conds ...bool) int {
	n := 0
	for _, c := range conds {
		if c {
			n++
		}
	}
	return n
}

// done lists the rows whose episode ended, in l.idx.
func (l *Layout) done(r *Rows) []int32 {
	l.idx = l.idx[:0]
	for i := range l.N {
		if r.Terminated[i] || r.Truncated[i] {
			l.idx = append(l.idx, int32(i))
		}
	}
	return l.idx
}

func (l *Layout) writeFlags(w *Writer, key string, any bool, flags []bool) {
	if any {
		w.Str(key)
		putAll(w.Array(Bool, l.N), flags)
	}
}

func (l *Layout) writeMask(w *Writer, any bool, mask []bool) {
	if any {
		w.Str("mask")
		putAll(w.Array(Int8, l.N, l.Mask), mask)
	}
}

// writeFinal writes the final observations, masks and infos of the rows in l.idx, whose episodes
// ended.
func (l *Layout) writeFinal(w *Writer, r *Rows) {
	mask := false
	for _, i := range l.idx {
		mask = mask || slices.Contains(r.FinalMask[int(i)*l.Mask:(int(i)+1)*l.Mask], false)
	}
	w.Str("fin")
	w.Map(2 + count(mask, len(l.info) > 0))
	l.writeIdx(w)
	w.Str("obs")
	l.writeBatch(w, &l.obs, r.FinalObs, l.ObsSize, 0, l.idx)
	if mask {
		w.Str("mask")
		dst := w.Array(Int8, len(l.idx), l.Mask)
		for j, i := range l.idx {
			putAll(dst[j*l.Mask:(j+1)*l.Mask], r.FinalMask[int(i)*l.Mask:(int(i)+1)*l.Mask])
		}
	}
	l.writeInfo(w, r.FinalInfo, l.idx)
}

// writeInfo writes the columns of the given rows, or of all if rows is nil.
func (l *Layout) writeInfo(w *Writer, info []float64, rows []int32) {
	if len(l.info) == 0 {
		return
	}
	w.Str("info")
	w.Map(len(l.info))
	k := l.numRows(rows)
	for c, col := range l.info {
		w.Str(col.name)
		dst := w.Array(col.dtype, k)
		for j := range k {
			putInfo(dst, j, col.dtype, info[rowAt(rows, j)*len(l.info)+c])
		}
	}
}

func (l *Layout) writeIdx(w *Writer) {
	w.Str("idx")
	putAll(w.Array(Int32, len(l.idx)), l.idx)
}

func (l *Layout) writeEpisodes(w *Writer, r *Rows) {
	w.Str("ep")
	w.Map(3)
	l.writeIdx(w)
	w.Str("r")
	dst := w.Array(Float64, len(l.idx))
	for j, i := range l.idx {
		putInfo(dst, j, Float64, r.EpisodeReturn[i])
	}
	w.Str("l")
	dst = w.Array(Int64, len(l.idx))
	for j, i := range l.idx {
		binary.LittleEndian.PutUint64(dst[8*j:], uint64(r.EpisodeLength[i]))
	}
}
