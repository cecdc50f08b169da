//go:build amd64 && !purego

package optim

import "golang.org/x/sys/cpu"

//go:generate go run ./internal/asm -out vectors_amd64.s -stubs vectors_amd64.go -pkg optim

// lanes is the number of float32 in a vector of this CPU, or 0 without AVX2 and FMA.
var lanes = func() int {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ:
		return 16
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return 8
	}
	return 0
}()

// Each of these functions processes the leading elements that fill whole vectors, and returns their
// number.

func (k adamStep) vectors(value, grad, m, v []float32) int {
	n := whole(len(value), lanes)
	if n == 0 {
		return 0
	}
	inverse := 1 / k.root
	if lanes == 16 {
		adamAVX512(&value[0], &grad[0], &m[0], &v[0], n, k.beta1, k.rest1, k.beta2, k.rest2, k.size, k.root, inverse, k.eps)
	} else {
		adamAVX2(&value[0], &grad[0], &m[0], &v[0], n, k.beta1, k.rest1, k.beta2, k.rest2, k.size, k.root, inverse, k.eps)
	}
	return n
}

func sumSquaresVectors(sums *[sumLanes]float64, x []float32) int {
	n := whole(len(x), sumLanes)
	switch {
	case lanes == 0 || n == 0:
		return 0
	case lanes == 16:
		sumSquaresAVX512(&x[0], n, &sums[0])
	default:
		sumSquaresAVX2(&x[0], n, &sums[0])
	}
	return n
}

func scaleVectors(x []float32, c float32) int {
	n := whole(len(x), lanes)
	switch {
	case n == 0:
	case lanes == 16:
		scaleAVX512(&x[0], n, c)
	default:
		scaleAVX2(&x[0], n, c)
	}
	return n
}

// whole returns the greatest multiple of block that is at most n; 0 if block is.
func whole(n, block int) int {
	if block == 0 {
		return 0
	}
	return n - n%block
}
