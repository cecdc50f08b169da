package lanes

import "math"

// SinCos returns the sine and the cosine of x. For |x| ≤ π/4 they are correctly rounded in all but about one case in a
// million; for larger |x| they are those of package math.
//
// NumPy takes both from the C library, whose results are correctly rounded except for about 0.3 % of sines and 0.02 %
// of cosines in CartPole's range. Those of math differ in 1.5 % and 25 %, and depend on the architecture. An unstable
// pole amplifies the last bit by e^(4 t/s), which shows in the float32 observation of a long episode.
//
// The Taylor series is summed in double-double arithmetic, as far as its terms reach below
// the last bit of a double, and in plain arithmetic beyond.
//
// Source: Dekker, "A Floating-Point Technique for Extending the Available Precision",
// Numerische Mathematik 18, 1971.
func SinCos(x float64) (sin, cos float64) {
	if !(math.Abs(x) <= math.Pi/4) {
		return math.Sin(x), math.Cos(x)
	}
	z := square(x)

	// sin x = x + x·z·(s3 + z·(s5 + z·(s7 + …))) for z = x².
	r := dd{hi: tail(z.hi, &sinTail)}
	r = r.mulAdd(z, s7)
	r = r.mulAdd(z, s5)
	r = r.mulAdd(z, s3)
	sin = r.mul(z).mul(dd{hi: x}).addTo(x)

	// cos x = 1 + z·(c2 + z·(c4 + z·(c6 + z·(c8 + …)))).
	r = dd{hi: tail(z.hi, &cosTail)}
	r = r.mulAdd(z, c8)
	r = r.mulAdd(z, c6)
	r = r.mulAdd(z, c4)
	r = r.mulAdd(z, c2)
	return sin, r.mul(z).addTo(1)
}

// dd is the unevaluated sum of two doubles, lo being below the last bit of hi.
type dd struct{ hi, lo float64 }

// The first coefficients 1/n!, with the alternating signs, as the nearest double and the rest.
const (
	h3 = -0x1.5555555555555p-3
	h5 = 0x1.1111111111111p-7
	h7 = -0x1.a01a01a01a01ap-13
	h4 = 0x1.5555555555555p-5
	h6 = -0x1.6c16c16c16c17p-10
	h8 = 0x1.a01a01a01a01ap-16
)

var (
	s3 = dd{h3, -1.0/6 - h3}
	s5 = dd{h5, 1.0/120 - h5}
	s7 = dd{h7, -1.0/5040 - h7}

	c2 = dd{-0.5, 0}
	c4 = dd{h4, 1.0/24 - h4}
	c6 = dd{h6, -1.0/720 - h6}
	c8 = dd{h8, 1.0/40320 - h8}

	// The following coefficients, highest first; the next term is below 2^-80 of the result.
	sinTail = [8]float64{
		1 / fact19 / (20 * 21 * 22 * 23) * -1, 1 / fact19 / (20 * 21), -1 / fact19, 1 / fact17,
		-1 / fact15, 1 / fact13, -1 / fact11, 1 / fact9,
	}
	cosTail = [8]float64{
		1 / fact18 / (19 * 20 * 21 * 22 * 23 * 24), -1 / fact18 / (19 * 20 * 21 * 22), 1 / fact18 / (19 * 20), -1 / fact18,
		1 / fact16, -1 / fact14, 1 / fact12, -1 / fact10,
	}
)

const (
	fact9  = 362880.0
	fact10 = fact9 * 10
	fact11 = fact10 * 11
	fact12 = fact11 * 12
	fact13 = fact12 * 13
	fact14 = fact13 * 14
	fact15 = fact14 * 15
	fact16 = fact15 * 16
	fact17 = fact16 * 17
	fact18 = fact17 * 18
	fact19 = fact18 * 19
)

// tail returns the value at z of the polynomial with coefficients c, the highest first.
func tail(z float64, c *[8]float64) float64 {
	r := c[0]
	for _, k := range c[1:] {
		r = math.FMA(r, z, k)
	}
	return r
}

// square returns x² without error.
func square(x float64) dd {
	p := float64(x * x)
	return dd{p, math.FMA(x, x, -p)}
}

// mul returns a·b.
func (a dd) mul(b dd) dd {
	p := float64(a.hi * b.hi) // must not be fused with a later sum
	e := math.FMA(a.hi, b.hi, -p)
	return dd{p, math.FMA(a.lo, b.hi, math.FMA(a.hi, b.lo, e))}
}

// mulAdd returns c + a·b, where |c| is the larger.
func (a dd) mulAdd(b, c dd) dd {
	p := a.mul(b)
	s := c.hi + p.hi
	return dd{s, p.hi - (s - c.hi) + p.lo + c.lo}
}

// addTo returns c + a, rounded once, where |c| is the larger.
func (a dd) addTo(c float64) float64 {
	s := c + a.hi
	return s + (a.hi - (s - c) + a.lo)
}
