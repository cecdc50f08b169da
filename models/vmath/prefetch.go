package vmath

import "unsafe"

// Prefetch asks for the memory of x, to be read soon, and does not wait for it: rows that lie scattered in a memory
// larger than the caches arrive while the program computes. It changes nothing, and does nothing on machines without
// a kernel.
func Prefetch[T any](x []T) {
	if len(x) > 0 {
		prefetch((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(x[0])))
	}
}
