// Package lanes computes sines and cosines for CartPole, and steps many CartPoles at once, each in one lane of a vector,
// with the bits of classic.CartPoleStep. On amd64 it has kernels for AVX2 with FMA and for AVX-512.
package lanes

import "github.com/kubernasium/kubernasium/envs/classic/lanes/internal/table"

// Rows is the number of environments that [CartPoles] holds.
const Rows = table.Rows

// CartPoles holds the states of environments, and the forces of their next step in N.
type CartPoles struct {
	Pos, Vel, Theta, Omega, Force [Rows]float64
}

// Constants holds each number as often as the widest vector has lanes.
type Constants [table.Constants][table.RowBytes / 8]float64

// System has the constants of the system, in SI units.
type System struct {
	Gravity, MassPole, MassTotal, HalfLength, PoleMassLength, FourThirds, Tau float64
}

// NewConstants returns the constants of a step.
func NewConstants(s System) *Constants {
	var c Constants
	at := 0
	add := func(values ...float64) {
		for _, x := range values {
			for lane := range c[at] {
				c[at][lane] = x
			}
			at++
		}
	}
	add(sinTail[:]...)
	add(cosTail[:]...)
	for _, x := range []dd{s7, s5, s3, c8, c6, c4, c2} {
		add(x.hi, x.lo)
	}
	add(1, s.Gravity, s.MassPole, s.MassTotal, s.HalfLength, s.PoleMassLength, s.FourThirds, s.Tau)
	return &c
}

// Step advances the first n environments, whose angles must be at most π/4, and perhaps some of the following ones. It
// reports whether it did: without vectors it does nothing. It allocates nothing.
func (p *CartPoles) Step(c *Constants, n int) bool {
	n = (n + 7) &^ 7 // whole vectors
	switch best {
	case avx512:
		stepAVX512(&p.Pos[0], &c[0][0], n)
	case avx2:
		stepAVX2(&p.Pos[0], &c[0][0], n)
	default:
		return false
	}
	return true
}

// Instruction sets with a kernel.
const (
	none = iota
	avx2
	avx512
)

// best is the widest that this CPU has.
var best = supported()
