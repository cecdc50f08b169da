package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"
)

// littleEndian is true if memory has the wire's byte order.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf returns the memory of s.
func bytesOf[T float32 | float64 | int32 | int64 | bool](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

// putAll writes src in the wire's byte order.
func putAll[T float32 | float64 | int32 | int64 | bool](dst []byte, src []T) {
	copy(dst, bytesOf(src))
	if littleEndian {
		return
	}
	var zero T
	size := int(unsafe.Sizeof(zero))
	for i := range src {
		slices.Reverse(dst[i*size : (i+1)*size])
	}
}

// put writes numbers as elements of dt: float32, float64 or an integer.
func put(dst []byte, dt DType, src []float32) {
	switch dt {
	case Float32:
		putAll(dst, src)
	case Int64:
		for i, x := range src {
			binary.LittleEndian.PutUint64(dst[8*i:], uint64(int64(x)))
		}
	case Int8:
		for i, x := range src {
			dst[i] = byte(int8(x))
		}
	default:
		panic("wire: no space has values of dtype " + dt.String())
	}
}

// getFloat32s converts the elements of a to float32 in dst, which has their number. It reports
// whether it knows the dtype.
func getFloat32s(dst []float32, a *Array) bool {
	b := a.Data
	switch a.DType {
	case Float32:
		if littleEndian {
			copy(bytesOf(dst), b)
			return true
		}
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case Float64:
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
		}
	case Int64:
		for i := range dst {
			dst[i] = float32(int64(binary.LittleEndian.Uint64(b[8*i:])))
		}
	default:
		return getInts(dst, a)
	}
	return true
}

// getInts is getFloat32s for the less common dtypes.
func getInts(dst []float32, a *Array) bool {
	b := a.Data
	switch a.DType {
	case Bool, Uint8:
		for i := range dst {
			dst[i] = float32(b[i])
		}
	case Int8:
		for i := range dst {
			dst[i] = float32(int8(b[i]))
		}
	case Int16:
		for i := range dst {
			dst[i] = float32(int16(binary.LittleEndian.Uint16(b[2*i:])))
		}
	case Uint16:
		for i := range dst {
			dst[i] = float32(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case Int32:
		for i := range dst {
			dst[i] = float32(int32(binary.LittleEndian.Uint32(b[4*i:])))
		}
	case Uint32:
		for i := range dst {
			dst[i] = float32(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case Uint64:
		for i := range dst {
			dst[i] = float32(binary.LittleEndian.Uint64(b[8*i:]))
		}
	default:
		return false
	}
	return true
}

// getFloat64s converts the elements of a, of a dtype of info columns or rewards, to float64; element i goes to
// dst[i*stride].
func getFloat64s(dst []float64, stride int, a *Array) {
	b := a.Data
	for i := range a.Len() {
		switch a.DType {
		case Float64:
			dst[i*stride] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		case Int64:
			dst[i*stride] = float64(int64(binary.LittleEndian.Uint64(b[8*i:])))
		case Bool:
			dst[i*stride] = float64(b[i])
		}
	}
}
