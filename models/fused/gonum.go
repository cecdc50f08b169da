package fused

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// gonumKernels are the portable kernels.
type gonumKernels struct{}

var _ kernels = gonumKernels{}

// For a product of four or more blocks of 64×64, gonum starts goroutines and allocates. Products
// within these bounds avoid that.
const gonumRows, gonumCols = 64, 192

func (gonumKernels) gemm(m, n, k int, a matrix, b []float32, ldb int, c []float32, ldc int, start []float32, ldstart int) {
	begin(m, n, c, ldc, start, ldstart)
	for i := 0; i < m; i += gonumRows {
		rows := min(gonumRows, m-i)
		trans, ga := blas.NoTrans, blas32.General{Rows: rows, Cols: k, Stride: a.row, Data: a.x[i*a.row:]}
		if a.row == 1 && k > 1 {
			trans, ga = blas.Trans, blas32.General{Rows: k, Cols: rows, Stride: a.col, Data: a.x[i:]}
		}
		for j := 0; j < n; j += gonumCols {
			cols := min(gonumCols, n-j)
			gb := blas32.General{Rows: k, Cols: cols, Stride: ldb, Data: b[j:]}
			gc := blas32.General{Rows: rows, Cols: cols, Stride: ldc, Data: c[i*ldc+j:]}
			blas32.Gemm(trans, blas.NoTrans, 1, ga, gb, 1, gc)
		}
	}
}

// begin sets c to start.
func begin(m, n int, c []float32, ldc int, start []float32, ldstart int) {
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		switch {
		case start == nil:
			clear(row)
		case &start[i*ldstart] != &row[0]:
			copy(row, start[i*ldstart:])
		}
	}
}

func (gonumKernels) activate(x []float32, relu bool) {
	if relu {
		for i, v := range x {
			x[i] = max(v, 0)
		}
		return
	}
	for i, v := range x {
		x[i] = tanh(v)
	}
}

func (gonumKernels) derive(d, y []float32, relu bool) {
	y = y[:len(d)]
	if relu {
		for i, v := range y {
			if !(v > 0) {
				d[i] = 0
			}
		}
		return
	}
	for i, v := range y {
		d[i] *= 1 - float32(v*v)
	}
}

func (gonumKernels) sumRows(sum, d []float32, rows, ldd int) {
	for r := range rows {
		for j, v := range d[r*ldd : r*ldd+len(sum)] {
			sum[j] += v
		}
	}
}

func (gonumKernels) maxRows(max []float32, row []int32, x []float32) {
	copy(max, x)
	clear(row)
	row = row[:len(max)]
	for i := int32(1); int(i)*len(max) < len(x); i++ {
		for j, v := range x[int(i)*len(max):][:len(max)] {
			if m := max[j]; v > m || v != v && m == m {
				max[j], row[j] = v, i
			}
		}
	}
}

func (gonumKernels) transpose(dst, src []float32, rows, cols int) {
	transposeBlock(dst, rows, src, cols, 0, rows, 0, cols)
}

// transposeBlock transposes rows i0 to i1 and columns j0 to j1 of src, whose rows start ldsrc apart.
func transposeBlock(dst []float32, lddst int, src []float32, ldsrc, i0, i1, j0, j1 int) {
	for i := i0; i < i1; i++ {
		for j, v := range src[i*ldsrc+j0 : i*ldsrc+j1] {
			dst[(j0+j)*lddst+i] = v
		}
	}
}

func (gonumKernels) add(y, x []float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += x[i]
	}
}

func (gonumKernels) addScaled(y, x []float32, a float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += float32(a * x[i])
	}
}

func (gonumKernels) normalize(y, xhat, gamma, beta []float32) (inverse float32) {
	scale := 1 / float32(len(y))
	mean := sum(y) * scale
	xhat, gamma, beta = xhat[:len(y)], gamma[:len(y)], beta[:len(y)]
	for j, v := range y {
		xhat[j] = v - mean
	}
	inverse = float32(1 / math.Sqrt(float64(dot(xhat, xhat)*scale)+normEps))
	for j := range y {
		v := xhat[j] * inverse
		xhat[j] = v
		y[j] = float32(v*gamma[j]) + beta[j]
	}
	return inverse
}

func (gonumKernels) normalizeGradient(d, xhat, gamma, weight []float32, inverse float32) {
	scale := 1 / float32(len(d))
	xhat, gamma, weight = xhat[:len(d)], gamma[:len(d)], weight[:len(d)]
	for j, g := range d {
		weight[j] += float32(g * xhat[j])
		d[j] = g * gamma[j]
	}
	mean, slope := sum(d)*scale, dot(d, xhat)*scale
	for j, g := range d {
		d[j] = (g - mean - float32(xhat[j]*slope)) * inverse
	}
}

// sum adds the elements of x in four partial sums, in the same order on all machines.
func sum(x []float32) float32 {
	var a, b, c, d float32
	for ; len(x) >= 4; x = x[4:] {
		a += x[0]
		b += x[1]
		c += x[2]
		d += x[3]
	}
	for _, v := range x {
		a += v
	}
	return (a + b) + (c + d)
}

// dot is the inner product of x and y, in the order of sum. The conversions keep the compiler
// from fusing products with sums.
func dot(x, y []float32) float32 {
	var a, b, c, d float32
	for len(x) >= 4 && len(y) >= 4 {
		a += float32(x[0] * y[0])
		b += float32(x[1] * y[1])
		c += float32(x[2] * y[2])
		d += float32(x[3] * y[3])
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		a += float32(v * y[i])
	}
	return (a + b) + (c + d)
}

// tanh is a quotient of polynomials, within 4 ulp of the exact value and of the sign of x. The
// conversions of products keep the compiler from fusing them with sums.
//
// Source: Eigen, MathFunctionsImpl.h, ptanh_float.
func tanh(x float32) float32 {
	x = max(min(x, tanhMax), -tanhMax)
	z := x * x
	p := float32(tanhP[0])
	for _, c := range tanhP[1:] {
		p = float32(p*z) + c
	}
	q := float32(tanhQ[0])
	for _, c := range tanhQ[1:] {
		q = float32(q*z) + c
	}
	return x * float32(p/q) // multiplying by p first would lose bits of a tiny x
}

// tanhMax is where the quotient reaches 1; tanhP and tanhQ are the coefficients of the
// numerator over x and of the denominator, in x², from the highest.
const tanhMax = 7.90531110763549805

var (
	tanhP = [...]float32{-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11,
		5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03}
	tanhQ = [...]float32{1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03}
)
