// Package vmath computes exponentials and logarithms of arrays with vector instructions, with the bits of math.Exp and
// math.Log.
//
// Trainings with math.Exp stay reproducible: results do not depend on the vector instructions of a machine. On amd64
// with AVX2 and FMA, each lane performs the operations of Go's assembly in the same order. When the program starts, it
// compares the kernels with math.Exp and math.Log at many points and disables those that differ, as they might after a
// change in Go. Other machines, and programs built with the tag purego, call package math.
//
// The package also prefetches memory.
package vmath

import "math"

// ShiftedExp subtracts c from each element of x and sets dst to the exponentials of the differences.
// It panics if x is shorter than dst, and allocates nothing.
func ShiftedExp(dst, x []float64, c float64) {
	x = x[:len(dst)]
	for len(dst) > 0 {
		n := vectors(dst, x, c)
		end := min(n+most, len(dst)) // the kernel leaves this vector to math.Exp
		for i := n; i < end; i++ {
			x[i] -= c
			dst[i] = math.Exp(x[i])
		}
		dst, x = dst[end:], x[end:]
	}
}

// Log sets dst to the natural logarithms of x. It panics if x is shorter than dst, and allocates nothing.
func Log(dst, x []float64) {
	x = x[:len(dst)]
	for len(dst) > 0 {
		n := logVectors(dst, x)
		end := min(n+most, len(dst)) // the kernel leaves this vector to math.Log
		for i := n; i < end; i++ {
			dst[i] = math.Log(x[i])
		}
		dst, x = dst[end:], x[end:]
	}
}

// most is the number of elements of the widest vector.
const most = 8

// A kernel is a generated function with its name.
type kernel struct {
	name string
	exp  func(dst, x *float64, n int, c float64) int
	log  func(dst, x *float64, n int) int
}

// best and bestLog are the fastest kernels that agree with math.Exp and math.Log, or zero values.
var best, bestLog = pick(kernel.agrees), pick(kernel.logAgrees)

func pick(agrees func(kernel) bool) kernel {
	for _, k := range kernels() {
		if agrees(k) {
			return k
		}
	}
	return kernel{}
}

// vectors computes leading elements and returns their number.
func vectors(dst, x []float64, c float64) int {
	if best.exp == nil {
		return 0
	}
	return best.exp(&dst[0], &x[0], len(dst), c)
}

// logVectors computes leading logarithms and returns their number.
func logVectors(dst, x []float64) int {
	if bestLog.log == nil {
		return 0
	}
	return bestLog.log(&dst[0], &x[0], len(dst))
}

// agrees reports whether a kernel gives the bits of math.Exp at points of all magnitudes.
func (k kernel) agrees() bool {
	const n = 256
	var dst, x, want [n]float64
	for i := range x {
		x[i] = 708 * math.Sin(float64(i)) * math.Pow(2, -float64(i%16))
		want[i] = math.Exp(x[i])
	}
	if k.exp(&dst[0], &x[0], n-1, 0) != n-1 { // with an incomplete last vector
		return false
	}
	return [n - 1]float64(dst[:n-1]) == [n - 1]float64(want[:n-1])
}

// logAgrees reports whether a kernel gives the bits of math.Log at points of all magnitudes and in each part of [½, 1).
func (k kernel) logAgrees() bool {
	const n = 512
	var dst, x, want [n]float64
	for i := range x {
		x[i] = math.Ldexp(1+(float64(i)+0.3)/n, i%2) // with the exponents of 1 and 2, where most arguments are
		if i%4 == 3 {
			x[i] = math.Ldexp(x[i], i*3-700)
		}
		want[i] = math.Log(x[i])
	}
	return k.log(&dst[0], &x[0], n) == n && dst == want
}
