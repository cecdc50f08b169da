//go:build amd64 && !purego

package optim

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestQuotients compares steps of Adam by vectors with Go's loop: the quotients of roots √v, for v of each exponent,
// by the root of the second correction.
func TestQuotients(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var squares []float32
	for e := range uint32(256) { // subnormals first, infinity and NaN last
		squares = append(squares, math.Float32frombits(e<<23), math.Float32frombits(e<<23|(1<<23-1)))
		for range 30 {
			squares = append(squares, math.Float32frombits(e<<23|rng.Uint32()>>9))
		}
	}
	roots := []float32{1, math.Nextafter32(1, 0), math.Nextafter32(0.5, 1), 0.5, 1e-3}
	for step := range 60 {
		roots = append(roots, float32(math.Sqrt(1-math.Pow(0.999, float64(step*step+1)))), rng.Float32())
	}
	for _, root := range roots {
		compareQuotients(t, squares, root)
	}
}

// TestHardQuotients takes, for many roots b·2⁻²⁴ with an odd b, the numerators a whose quotients lie nearest to the
// middle between two numbers: those with a·2²⁵ = M·b ± 1, where M is odd and has 25 bits.
func TestHardQuotients(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	squares := make([]float32, 16)
	for range 200_000 {
		b := uint64(rng.IntN(1<<23)+1<<23) | 1
		inverse := b // modulo 2³: b·b is 1
		for range 4 {
			inverse *= 2 - b*inverse
		}
		inverse %= 1 << 25
		up := (inverse*b - 1) >> 25 // M·b = a·2²⁵ + 1
		down := b - up              // the same for 2²⁵ - M
		for i := range squares {
			a := math.Ldexp(float64([]uint64{up, down}[i%2]), 2*(i/2)-32)
			squares[i] = float32(a * a)
			if math.Sqrt(float64(squares[i])) != a && float32(math.Sqrt(float64(squares[i]))) != float32(a) {
				t.Fatalf("√(%v²) is %v", a, math.Sqrt(float64(squares[i])))
			}
		}
		compareQuotients(t, squares, float32(b)/(1<<24))
	}
}

// compareQuotients makes steps in which the new parameter is -m/(√v/root) and all states stay.
func compareQuotients(t *testing.T, squares []float32, root float32) {
	t.Helper()
	defer func(w int) { lanes = w }(lanes)
	n := len(squares)
	grad, m, want, got := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	k := adamStep{beta1: 1, beta2: 1, size: 1, root: root}
	for _, x := range []float32{1, 1.4, 1.9} { // neighbours that give one of them the same bits differ in another
		for i := range m {
			m[i] = x
		}
		lanes = 0
		clear(want)
		k.apply(want, grad, m, squares)
		for _, w := range widths()[1:] {
			lanes = w
			clear(got)
			k.apply(got, grad, m, squares)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
					t.Fatalf("vectors of %d: %v/(√%v/%v) is %v, want %v", w, x, squares[i], root, -got[i], -want[i])
				}
			}
		}
	}
}
