package profile

import "sort"

// cubic holds the coefficients of a polynomial of degree 3, constant first.
type cubic [4]float64

// at evaluates the polynomial. The conversions prevent fused multiply-add, so that equal inputs give equal bits, and
// thus equal ties, on every architecture.
func (c *cubic) at(u float64) float64 {
	return float64(float64(float64(float64(float64(c[3]*u)+c[2])*u)+c[1])*u) + c[0]
}

// notAKnot writes to dst, one cubic for each of the n-1 intervals, the interpolating cubic spline through (x[i], y[i])
// whose third derivative is continuous at the second and the second last knot. The argument of cubic i is the distance
// from x[i]. n is at least 4, x ascends strictly, and work has room for 2n values.
//
// Source: de Boor, "A Practical Guide to Splines", chapter IV, "not-a-knot".
func notAKnot(dst []cubic, x, y, work []float64) {
	n := len(x)
	second, upper := work[:n], work[n:2*n] // second derivatives; eliminated upper diagonal
	step := func(i int) float64 { return x[i+1] - x[i] }
	slope := func(i int) float64 { return (y[i+1] - y[i]) / step(i) }
	// The end conditions express the outer second derivatives by their two neighbours,
	// which leaves a tridiagonal system for the inner ones.
	for i := 1; i <= n-2; i++ {
		l, r := step(i-1), step(i)
		lower, diag, up := l, 2*(l+r), r
		if i == 1 {
			lower, diag, up = 0, diag+l+l*l/r, r-l*l/r
		}
		if i == n-2 {
			lower, diag, up = lower-r*r/l, diag+r+r*r/l, 0
		}
		rhs := 6 * (slope(i) - slope(i-1))
		if i > 1 {
			diag -= lower * upper[i-1]
			rhs -= lower * second[i-1]
		}
		upper[i] = up / diag
		second[i] = rhs / diag
	}
	for i := n - 3; i >= 1; i-- {
		second[i] -= upper[i] * second[i+1]
	}
	q := step(0) / step(1)
	second[0] = second[1]*(1+q) - second[2]*q
	q = step(n-2) / step(n-3)
	second[n-1] = second[n-2]*(1+q) - second[n-3]*q
	for i := range n - 1 {
		h := step(i)
		dst[i] = cubic{
			y[i],
			slope(i) - h*(2*second[i]+second[i+1])/6,
			second[i] / 2,
			(second[i+1] - second[i]) / (6 * h),
		}
	}
}

// surface is the bicubic not-a-knot spline of one task over its grid, clamped outside.
type surface struct {
	sizes, shares []float64
	// patch[j*(len(sizes)-1)+i][p] is, on size interval i and share interval j, the cubic
	// in size that multiplies the p-th power of the distance to the left share knot.
	patch [][4]cubic
}

// newSurface builds the tensor product: splines along the shares at every size, then
// splines along the sizes through each of their coefficients. The spline is linear in its
// values, so either order gives the same surface.
func newSurface(p *Profile, task int) *surface {
	nSizes, nShares := len(p.Sizes), len(p.Shares)
	s := &surface{sizes: p.Sizes, shares: p.Shares, patch: make([][4]cubic, (nShares-1)*(nSizes-1))}
	work := make([]float64, 2*max(nSizes, nShares))
	along := make([]cubic, nSizes*(nShares-1)) // (size, share interval)
	for i := range nSizes {
		row := p.Durations[(task*nSizes+i)*nShares:][:nShares]
		notAKnot(along[i*(nShares-1):][:nShares-1], p.Shares, row, work)
	}
	values, across := make([]float64, nSizes), make([]cubic, nSizes-1)
	for j := range nShares - 1 {
		for power := range 4 {
			for i := range values {
				values[i] = along[i*(nShares-1)+j][power]
			}
			notAKnot(across, p.Sizes, values, work)
			for i, c := range across {
				s.patch[j*(nSizes-1)+i][power] = c
			}
		}
	}
	return s
}

// atShares writes to dst, for each size interval, the cubic in size at milliCPU.
func (s *surface) atShares(dst []cubic, milliCPU float64) {
	j, v := locate(s.shares, milliCPU)
	for i := range dst {
		patch := &s.patch[j*(len(s.sizes)-1)+i]
		for q := range dst[i] {
			along := cubic{patch[0][q], patch[1][q], patch[2][q], patch[3][q]}
			dst[i][q] = along.at(v)
		}
	}
}

// at evaluates the surface at any point; arguments outside the grid are clamped to it.
func (s *surface) at(size, milliCPU float64) float64 {
	i, u := locate(s.sizes, size)
	j, v := locate(s.shares, milliCPU)
	patch := &s.patch[j*(len(s.sizes)-1)+i]
	along := cubic{patch[0].at(u), patch[1].at(u), patch[2].at(u), patch[3].at(u)}
	return along.at(v)
}

// locate returns the interval of ascending knots that v lies in and its distance from the
// interval's left knot, after clamping v to the knots. NaN counts as the first knot.
func locate(knots []float64, v float64) (i int, u float64) {
	last := len(knots) - 1
	if !(v > knots[0]) {
		return 0, 0
	}
	if v >= knots[last] {
		return last - 1, knots[last] - knots[last-1]
	}
	// Exact for the usual uniform grid up to rounding, which the comparisons correct.
	i = int((v - knots[0]) / (knots[last] - knots[0]) * float64(last))
	i = min(i, last-1)
	if v < knots[i] || v >= knots[i+1] {
		i = search(knots, v)
	}
	return i, v - knots[i]
}

// search returns i with knots[i] ≤ v < knots[i+1], which exists.
func search(knots []float64, v float64) int {
	i := sort.SearchFloat64s(knots, v)
	if knots[i] > v {
		i--
	}
	return i
}
