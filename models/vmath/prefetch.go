package vmath

import "unsafe"

// Prefetch loads the memory of x into the caches without waiting for it, so that scattered rows of a large array arrive
// while the program computes. It does nothing on machines without a kernel.
func Prefetch[T any](x []T) {
	if len(x) > 0 {
		prefetch((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(x[0])))
	}
}
