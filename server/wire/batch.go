package wire

import (
	"encoding/binary"
	"slices"
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
}

// EncodeStep writes the reply to a step. If sameStep is set, fin has the last observations of the
// episodes that ended.
func (l *Layout) EncodeStep(w *Writer, id uint64, r *Rows, sameStep bool) {
	l.encodeStep(w, TypeStep+OK, id, r, sameStep, 0)
}

// encodeStep writes the fields of a step in a message of the given kind, with room for more fields.
func (l *Layout) encodeStep(w *Writer, kind string, id uint64, r *Rows, sameStep bool, more int) {
	done := l.done(r)
	fin := sameStep && len(done) > 0
	l.encodeState(w, kind, id, r, more+count(fin, len(done) > 0))
	if fin {
		l.writeFinal(w, r)
	}
	if len(done) > 0 {
		l.writeEpisodes(w, r)
	}
}

// encodeState writes the state of the environments in a message of the given kind, with room for
// more fields.
func (l *Layout) encodeState(w *Writer, kind string, id uint64, r *Rows, more int) {
	te, tr, inv := slices.Contains(r.Terminated, true), slices.Contains(r.Truncated, true), slices.Contains(r.Invalid, true)
	mask := slices.Contains(r.Mask, false)
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

// EncodeReset writes the reply to a reset. seed is the server's own draw, nil if it drew none.
func (l *Layout) EncodeReset(w *Writer, id uint64, r *Rows, seed *uint64) {
	mask := slices.Contains(r.Mask, false)
	w.Head(3+count(mask, len(l.info) > 0, seed != nil), TypeReset+OK, id)
	w.Str("obs")
	l.writeBatch(w, &l.obs, r.Obs, l.ObsSize, 0, nil)
	l.writeMask(w, mask, r.Mask)
	l.writeInfo(w, r.Info, nil)
	if seed != nil {
		w.Str("seed")
		w.Uint(*seed)
	}
}

// EncodeState writes the reply to restore or fork, the state of the environments: the fields of a
// step without those of ended episodes, and the sums of the running episodes.
func (l *Layout) EncodeState(w *Writer, kind string, id uint64, r *Rows) {
	l.encodeState(w, kind+OK, id, r, 1)
	l.writeRun(w, r)
}

// writeRun writes the sums of the episodes that the rows belong to.
func (l *Layout) writeRun(w *Writer, r *Rows) {
	w.Str("run")
	w.Map(2)
	w.Str("r")
	putAll(w.Array(Float64, l.N), r.EpisodeReturn)
	w.Str("l")
	putAll(w.Array(Int64, l.N), r.EpisodeLength)
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

// writeFinal writes the last observations, masks and infos of the episodes that ended, those of
// l.idx.
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
	k := l.N
	if rows != nil {
		k = len(rows)
	}
	for c, col := range l.info {
		w.Str(col.name)
		dst := w.Array(col.dtype, k)
		for j := range k {
			i := j
			if rows != nil {
				i = int(rows[j])
			}
			putInfo(dst, j, col.dtype, info[i*len(l.info)+c])
		}
	}
}

func (l *Layout) writeIdx(w *Writer) {
	w.Str("idx")
	dst := w.Array(Int32, len(l.idx))
	for j, i := range l.idx {
		binary.LittleEndian.PutUint32(dst[4*j:], uint32(i))
	}
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
