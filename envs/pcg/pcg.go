// Package pcg is NumPy's default random generator: [New] and [Source.Seed] give the stream
// of numpy.random.Generator(numpy.random.PCG64(numpy.random.SeedSequence(seed))), which is
// also what Gymnasium's seeding.np_random(seed) returns. An environment that draws its
// instances from it starts in the same state as its Python counterpart with the same seed.
//
// Only the raw 64-bit outputs and the functions of this package agree with NumPy. The methods of [math/rand/v2.Rand]
// draw from the same outputs by Go's own algorithms.
package pcg

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// Source is a PCG64 generator: a linear congruential generator of 128 bits whose output is
// permuted by XSL-RR ("xor-shift low, random rotation") to 64 bits. Its period is 2^128.
// The zero Source is not seeded; make one with [New].
//
// A Source is not safe for concurrent use.
//
// Source: O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good
// Algorithms for Random Number Generation", HMC-CS-2014-0905, section 6.3.
type Source struct {
	hi, lo       uint64 // state
	incHi, incLo uint64 // increment of the congruence, odd: it chooses one of 2^127 streams
}

var _ rand.Source = (*Source)(nil)

// ErrState means that an encoded state is invalid. Errors of [Source.UnmarshalBinary] wrap it.
var ErrState = errors.New("pcg: invalid state")

// New returns the generator of NumPy's PCG64(SeedSequence(seed)).
func New(seed uint64) *Source {
	s := new(Source)
	s.Seed(seed)
	return s
}

// Seed puts s in the state of New(seed). It allocates nothing.
func (s *Source) Seed(seed uint64) {
	w := seedWords(seed)
	s.incHi, s.incLo = w[2]<<1|w[3]>>63, w[3]<<1|1
	s.hi, s.lo = 0, 0
	s.step()
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, w[1], 0)
	s.hi, _ = bits.Add64(s.hi, w[0], carry)
	s.step()
}

// The multiplier of the congruence, PCG_DEFAULT_MULTIPLIER_128.
const (
	mulHi = 0x2360ed051fc65da4
	mulLo = 0x4385df649fccf645
)

// step sets state = state*mul + inc modulo 2^128.
func (s *Source) step() {
	hi, lo := bits.Mul64(s.lo, mulLo)
	hi += s.hi*mulLo + s.lo*mulHi
	var carry uint64
	s.lo, carry = bits.Add64(lo, s.incLo, 0)
	s.hi, _ = bits.Add64(hi, s.incHi, carry)
}

// Uint64 returns the next output: NumPy's PCG64.random_raw(). It implements
// [math/rand/v2.Source] and allocates nothing.
func (s *Source) Uint64() uint64 {
	s.step()
	return bits.RotateLeft64(s.hi^s.lo, -int(s.hi>>58))
}

// Float64 returns the next double in [0, 1): NumPy's Generator.random().
func (s *Source) Float64() float64 { return Double(s.Uint64()) }

// Uniform returns the next double in [low, high): NumPy's Generator.uniform(low, high). As there, rounding may give
// high itself. NumPy rejects low > high and an infinite high-low; Uniform does not check them.
func (s *Source) Uniform(low, high float64) float64 { return Scale(s.Uint64(), low, high) }

// Double returns the double in [0, 1) that NumPy makes of the output x: the upper 53 bits times 2^-53. Callers that
// hold a [math/rand/v2.Rand] over a Source use pcg.Double(rng.Uint64()).
func Double(x uint64) float64 { return float64(x>>11) * 0x1p-53 }

// Scale returns low + (high-low)*Double(x), which is NumPy's Generator.uniform(low, high) of
// the output x.
func Scale(x uint64, low, high float64) float64 {
	// The conversion prevents the fusion of product and sum, which would round differently on some architectures.
	return low + float64((high-low)*Double(x))
}

// stateMagic begins the encoding of a state, to recognize other data.
const stateMagic = "pcg64:"

// AppendBinary appends the state of s to b: the bytes "pcg64:", then state and increment, of
// 128 bits each, with the most significant byte first. It never fails.
func (s *Source) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, stateMagic...)
	for _, x := range [...]uint64{s.hi, s.lo, s.incHi, s.incLo} {
		for shift := 56; shift >= 0; shift -= 8 {
			b = append(b, byte(x>>shift))
		}
	}
	return b, nil
}

// MarshalBinary returns the state of s in the form of [Source.AppendBinary].
func (s *Source) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary sets s to a state that [Source.AppendBinary] wrote; the stream resumes
// exactly. An error wraps [ErrState] and leaves s as it was.
func (s *Source) UnmarshalBinary(data []byte) error {
	const want = len(stateMagic) + 32
	if len(data) != want {
		return fmt.Errorf("%w: %d bytes, want %d", ErrState, len(data), want)
	}
	if string(data[:len(stateMagic)]) != stateMagic {
		return fmt.Errorf("%w: it starts with %q, want %q", ErrState, data[:len(stateMagic)], stateMagic)
	}
	var w [4]uint64
	for i, c := range data[len(stateMagic):] {
		w[i/8] = w[i/8]<<8 | uint64(c)
	}
	if w[3]&1 == 0 {
		return fmt.Errorf("%w: increment ends in %#x, want an odd number", ErrState, data[want-1])
	}
	s.hi, s.lo, s.incHi, s.incLo = w[0], w[1], w[2], w[3]
	return nil
}
