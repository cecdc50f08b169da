package wire

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// ArrayExt is the type of the MessagePack extension that holds an array.
const ArrayExt = 0x4e

// MaxNDim is the greatest number of dimensions of an array.
const MaxNDim = 8

// DType is the code of an array's type of elements.
type DType uint8

// Types of elements, by NumPy's names.
const (
	Bool DType = iota
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float16
	Float32
	Float64
	BFloat16
	numDTypes
)

var (
	itemSizes = [numDTypes]int{1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 2}
	names     = [numDTypes]string{
		"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
		"float16", "float32", "float64", "bfloat16",
	}
)

func (d DType) String() string {
	if d < numDTypes {
		return names[d]
	}
	return "unknown"
}

// ItemSize returns the bytes of an element.
func (d DType) ItemSize() int { return itemSizes[d] }

// DTypeOf returns the type that NumPy calls name.
func DTypeOf(name string) (DType, bool) {
	for d, n := range names {
		if n == name {
			return DType(d), true
		}
	}
	return 0, false
}

// Array is a decoded array. Its data point into the frame.
type Array struct {
	DType DType
	NDim  int
	Sides [MaxNDim]uint32
	Data  []byte // little-endian, row-major
}

// Len returns the number of elements.
func (a *Array) Len() int { return len(a.Data) / a.DType.ItemSize() }

// Shape returns a copy of the sides, so that errors with the shape do not move a to the heap.
func (a *Array) Shape() []uint32 { return slices.Clone(a.Sides[:a.NDim]) }

// HasShape reports whether the array's shape is n followed by rest.
func (a *Array) HasShape(n int, rest ...int) bool {
	if a.NDim != 1+len(rest) || int(a.Sides[0]) != n {
		return false
	}
	for i, s := range rest {
		if int(a.Sides[i+1]) != s {
			return false
		}
	}
	return true
}

// parseArray parses an array. It neither copies nor allocates, except for errors.
func parseArray(v Value, a *Array) error {
	payload, ok := extension(v)
	if !ok {
		return Errorf(BadArray, "not an extension of type 0x4E")
	}
	if len(payload) < 4 {
		return Errorf(BadArray, "an array of %d bytes, want at least 4", len(payload))
	}
	flags, dtype, ndim, pad := payload[0], DType(payload[1]), int(payload[2]), int(payload[3])
	switch {
	case flags != 0:
		return Errorf(BadArray, "array flags 0x%02x, want 0", flags)
	case dtype >= numDTypes:
		return Errorf(BadArray, "dtype code %d, want at most %d", dtype, numDTypes-1)
	case ndim > MaxNDim:
		return Errorf(BadArray, "an array of %d dimensions, want at most %d", ndim, MaxNDim)
	case pad > 63:
		return Errorf(BadArray, "%d bytes of padding, want at most 63", pad)
	case len(payload) < 4+4*ndim+pad:
		return Errorf(BadArray, "an array of %d bytes, want %d for its header", len(payload), 4+4*ndim+pad)
	}
	size := uint64(dtype.ItemSize())
	for i := range ndim {
		s := binary.LittleEndian.Uint32(payload[4+4*i:])
		a.Sides[i] = s
		if size *= uint64(s); size > math.MaxUint32 { // an extension is never longer
			size = math.MaxUint32 + 1
		}
	}
	data := payload[4+4*ndim+pad:]
	if uint64(len(data)) != size {
		return Errorf(BadArray, "an array of shape %v and dtype %s with %d bytes of data", slices.Clone(a.Sides[:ndim]), dtype, len(data))
	}
	a.DType, a.NDim, a.Data = dtype, ndim, data
	return nil
}

// extension returns the payload of an extension of type ArrayExt.
func extension(v Value) ([]byte, bool) {
	pos := 1
	switch c := v[0]; {
	case msgpcode.IsFixedExt(c):
	case c == msgpcode.Ext8:
		pos = 2
	case c == msgpcode.Ext16:
		pos = 3
	case c == msgpcode.Ext32:
		pos = 5
	default:
		return nil, false
	}
	return v[pos+1:], v[pos] == ArrayExt
}

// Array writes the header of an array and returns its data for the caller to fill before the next
// write. The data begin at a multiple of 8 bytes from the frame's start, or of 64 if they take 4
// KiB or more.
func (w *Writer) Array(dt DType, shape ...int) []byte {
	size := dt.ItemSize()
	for _, s := range shape {
		size *= s
	}
	head := 4 + 4*len(shape)
	pad := padding(len(w.buf), head, size)
	must(w.enc.EncodeExtHeader(ArrayExt, head+pad+size))
	b := w.grow(head + pad + size)
	b[0], b[1], b[2], b[3] = 0, byte(dt), byte(len(shape)), byte(pad)
	for i, s := range shape {
		binary.LittleEndian.PutUint32(b[4+4*i:], uint32(s))
	}
	clear(b[head : head+pad])
	return b[head+pad:]
}

// padding returns the number of bytes that align the data of an array whose extension begins at
// start.
func padding(start, head, size int) int {
	if size >= 4096 {
		if pad, ok := align(start, head, size, 64); ok {
			return pad
		}
	}
	pad, _ := align(start, head, size, 8)
	return pad
}

// align returns the least padding after which the data begin at a multiple of to. Where the
// extension's header grows with the padding, there may be none.
func align(start, head, size, to int) (pad int, ok bool) {
	for pad := range 64 {
		if (start+extHeader(head+pad+size)+head+pad)%to == 0 {
			return pad, true
		}
	}
	return 0, false
}

// extHeader returns the bytes before the payload of an extension.
func extHeader(payload int) int {
	switch {
	case payload == 1 || payload == 2 || payload == 4 || payload == 8 || payload == 16:
		return 2
	case payload <= math.MaxUint8:
		return 3
	case payload <= math.MaxUint16:
		return 4
	}
	return 6
}
