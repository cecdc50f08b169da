package wire

import (
	"slices"
	"testing"
)

// TestPutAll: elements are little-endian, and where memory is not, each of them is reversed.
func TestPutAll(t *testing.T) {
	dst := make([]byte, 8)
	putAll(dst, []int32{1, -2})
	if want := []byte{1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff}; !slices.Equal(dst, want) {
		t.Errorf("bytes of 1 and -2: %v, want %v", dst, want)
	}
	littleEndian = !littleEndian
	defer func() { littleEndian = !littleEndian }()
	putAll(dst, []int32{1, -2})
	if want := []byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe}; !slices.Equal(dst, want) {
		t.Errorf("with the other order of memory: %v, want %v", dst, want)
	}
}
