package wire

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs/space"
)

// Layout encodes and decodes the batches of one vector of environments. Client and server build it
// from the spaces and the info columns in make.ok.
type Layout struct {
	N       int // environments
	ObsSize int // numbers of one observation
	ActSize int // numbers of one action
	Mask    int // length of a row of the action mask; 0: none

	obs, act node
	info     []infoColumn
	idx      []int32 // scratch: rows of fin and ep
	shape    [MaxNDim + 1]int
}

// node is a space with its place in a row.
type node struct {
	dtype DType
	shape []int // of one value
	size  int
	keys  []string // of a dict
	parts []node
	gap   int // numbers of a row before this part that belong to no part
}

type infoColumn struct {
	name  string
	dtype DType
}

// NewLayout returns the layout of n environments.
func NewLayout(n int, obs, act space.Space, info []Column) (*Layout, error) {
	l := &Layout{N: n, ObsSize: obs.Size(), ActSize: act.Size(), Mask: space.MaskSize(act)}
	var err error
	if l.obs, err = newNode(obs.Describe(), obs.Size()); err != nil {
		return nil, err
	}
	if l.act, err = newNode(act.Describe(), act.Size()); err != nil {
		return nil, err
	}
	for _, c := range info {
		d, ok := DTypeOf(c.DType)
		if !ok || d != Float64 && d != Int64 && d != Bool {
			return nil, fmt.Errorf("wire: info column %s of dtype %q, want float64, int64 or bool", c.Name, c.DType)
		}
		l.info = append(l.info, infoColumn{c.Name, d})
	}
	l.idx = make([]int32, 0, n)
	return l, nil
}

// Sub returns the layout of k environments of the same kind.
func (l *Layout) Sub(k int) *Layout {
	sub := *l
	sub.N, sub.idx = k, make([]int32, 0, k)
	return &sub
}

// Select reduces encoded observations to the parts of a Dict in keys, in the order of the Dict. Rows in memory and
// ObsSize do not change.
func (l *Layout) Select(keys []string) error {
	if l.obs.parts == nil {
		return Errorf(InvalidOption, "obs_keys, and the observation is no Dict")
	}
	if len(keys) == 0 {
		return Errorf(InvalidOption, "obs_keys is empty, want some of %q", l.obs.keys)
	}
	for _, k := range keys {
		if !slices.Contains(l.obs.keys, k) {
			return Errorf(InvalidOption, "obs_keys has %q, want some of %q", k[:min(len(k), 64)], l.obs.keys)
		}
	}
	chosen, gap := node{size: l.obs.size}, 0
	for i, part := range l.obs.parts {
		if !slices.Contains(keys, l.obs.keys[i]) {
			gap += part.size
			continue
		}
		part.gap, gap = gap, 0
		chosen.keys, chosen.parts = append(chosen.keys, l.obs.keys[i]), append(chosen.parts, part)
	}
	l.obs = chosen
	return nil
}

func newNode(d space.Description, size int) (node, error) {
	n := node{shape: d.Shape, size: size}
	if d.Kind == "dict" {
		n.keys = d.Keys
		for _, p := range d.Parts {
			s, err := space.FromDescription(p)
			if err != nil {
				return node{}, err
			}
			part, err := newNode(p, s.Size())
			if err != nil {
				return node{}, err
			}
			n.parts = append(n.parts, part)
		}
		return n, nil
	}
	var ok bool
	if n.dtype, ok = DTypeOf(d.DType); !ok || n.dtype != Float32 && n.dtype != Int64 && n.dtype != Int8 {
		return node{}, fmt.Errorf("wire: a %s of dtype %q, want float32, int64 or int8", d.Kind, d.DType)
	}
	if len(n.shape) >= MaxNDim {
		return node{}, fmt.Errorf("wire: a space of %d dimensions, want at most %d", len(n.shape), MaxNDim-1)
	}
	return n, nil
}

// ReplySize bounds the bytes of the longest reply to a step, without the field env_error.
func (l *Layout) ReplySize() int {
	const overhead = 256 // keys and headers of an array, generously
	row := l.obs.bytes() + 8*len(l.info)
	size := 2*(row+l.Mask) + 8 + 3 + 20 + 4 // obs, info, mask, and of fin; r; te, tr, inv; ep; fin.idx
	arrays := 11 + 2*l.obs.leaves() + 2*len(l.info)
	return l.N*size + arrays*overhead
}

// FailuresSize bounds the bytes of the field env_error.
func (l *Layout) FailuresSize() int { return 256 + l.N*(maxFailure+3+4) }

func (n *node) bytes() int {
	if n.parts == nil {
		return n.size * n.dtype.ItemSize()
	}
	b := 0
	for i := range n.parts {
		b += n.parts[i].bytes()
	}
	return b
}

func (n *node) leaves() int {
	if n.parts == nil {
		return 1
	}
	k := 0
	for i := range n.parts {
		k += n.parts[i].leaves()
	}
	return k
}

// batchShape returns the shape of k values of n. It uses the memory of l.
func (l *Layout) batchShape(k int, n *node) []int {
	s := append(l.shape[:0], k)
	return append(s, n.shape...)
}

// numRows returns the number of rows, or of all if rows is nil.
func (l *Layout) numRows(rows []int32) int {
	if rows == nil {
		return l.N
	}
	return len(rows)
}

// rowAt returns the j-th of rows, or of all if rows is nil.
func rowAt(rows []int32, j int) int {
	if rows == nil {
		return j
	}
	return int(rows[j])
}

// writeBatch writes the values of n in the given rows of src, or in all N rows if rows is nil. Rows
// of src are stride numbers long, and the values start at off.
func (l *Layout) writeBatch(w *Writer, n *node, src []float32, stride, off int, rows []int32) {
	if n.parts != nil {
		w.Map(len(n.parts))
		for i := range n.parts {
			w.Str(n.keys[i])
			off += n.parts[i].gap
			l.writeBatch(w, &n.parts[i], src, stride, off, rows)
			off += n.parts[i].size
		}
		return
	}
	k := l.numRows(rows)
	dst := w.Array(n.dtype, l.batchShape(k, n)...)
	if rows == nil && n.size == stride {
		put(dst, n.dtype, src)
		return
	}
	rowBytes := n.size * n.dtype.ItemSize()
	for j := range k {
		i := rowAt(rows, j)
		put(dst[j*rowBytes:(j+1)*rowBytes], n.dtype, src[i*stride+off:i*stride+off+n.size])
	}
}

// readBatch is the inverse of writeBatch. Elements may be of any dtype that converts.
func (l *Layout) readBatch(v Value, n *node, dst []float32, stride, off int, rows []int32) error {
	if v == nil {
		return Errorf(BadField, "values of a space are missing")
	}
	if n.parts != nil {
		for i := range n.parts {
			part, err := lookup(v, n.keys[i])
			if err != nil {
				return err
			}
			if err := l.readBatch(part, &n.parts[i], dst, stride, off, rows); err != nil {
				return err
			}
			off += n.parts[i].size
		}
		return nil
	}
	k := l.numRows(rows)
	var a Array
	if err := parseArray(v, &a); err != nil {
		return err
	}
	if !a.HasShape(k, n.shape...) {
		return Errorf(BadField, "an array of shape %v, want %v", a.Shape(), slices.Clone(l.batchShape(k, n)))
	}
	return scatter(&a, n, dst, stride, off, rows)
}

// scatter distributes the values of a, of n.size elements each, to rows of dst.
func scatter(a *Array, n *node, dst []float32, stride, off int, rows []int32) error {
	ok := true
	if rows == nil && n.size == stride {
		ok = getFloat32s(dst, a)
	} else {
		one := *a
		rowBytes := n.size * a.DType.ItemSize()
		for j := range int(a.Sides[0]) {
			i := rowAt(rows, j)
			one.Data = a.Data[j*rowBytes : (j+1)*rowBytes]
			ok = ok && getFloat32s(dst[i*stride+off:i*stride+off+n.size], &one)
		}
	}
	if !ok {
		return Errorf(BadField, "an array of dtype %s, want %s", a.DType, n.dtype)
	}
	return nil
}

// lookup returns the value of key in the map v.
func lookup(v Value, key string) (Value, error) {
	value, err := find(v, key)
	if value == nil && err == nil {
		return nil, Errorf(BadField, "no key %q", key)
	}
	return value, err
}

// find is lookup for a key that may be absent: then it returns nil.
func find(v Value, key string) (Value, error) {
	n, pos, err := mapHeader(v)
	if err != nil {
		return nil, Errorf(BadField, "a value of type 0x%02x, want a map with key %q", v[0], key)
	}
	rest := v[pos:]
	for range n {
		k, next, err := readKey(rest, 0)
		if err != nil {
			return nil, err
		}
		value, after := cut(rest[next:])
		if value == nil {
			return nil, errTruncated(pos)
		}
		if string(k) == key {
			return value, nil
		}
		rest = after
	}
	return nil, nil
}
