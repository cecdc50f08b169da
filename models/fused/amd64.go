//go:build amd64 && !purego

package fused

import "golang.org/x/sys/cpu"

//go:generate go run ./internal/asm -out kernels_amd64.s -stubs stubs_amd64.go -pkg fused

// variants returns the kernels that this CPU can run, the fastest first.
func variants() []variant {
	vs := []variant{{"gonum", gonumKernels{}}}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		vs = append([]variant{{"avx2", avx2{}}}, vs...)
		if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2 {
			vs = append([]variant{{"avx512", avx512{}}}, vs...)
		}
	}
	return vs
}

// depth is the number of elements of the inner index that a product handles for all rows before the
// next ones, so that this part of a strip of b stays in the L1 cache. Sums continue, so depth does
// not change results.
const depth = 128

// avx512 and avx2 are the generated kernels of these instruction sets.
type (
	avx512 struct{ sharedAVX }
	avx2   struct{ sharedAVX }
)

// sharedAVX holds the kernels that both instruction sets share.
type sharedAVX struct{}

var (
	_ kernels = avx512{}
	_ kernels = avx2{}
)

func (avx512) gemm(m, n, k int, a matrix, b []float32, ldb int, c []float32, ldc int, start []float32, ldstart int) {
	checkGEMM(m, n, k, a, b, ldb, c, ldc, start, ldstart)
	if last := narrowColumns(m, n, 64, a); last > 0 {
		n -= last
		var s []float32
		if start != nil {
			s = start[n:]
		}
		narrowGEMM(true, m, last, k, a, b[n:], ldb, c[n:], ldc, s, ldstart)
	}
	for p := 0; p < k; p += depth {
		ap, bp, kp := &a.x[p*a.col], b[p*ldb:], min(depth, k-p)
		for j := 0; j < n; j += 64 {
			var s *float32
			if start != nil {
				s = &start[j]
			}
			bj, cj, tail := &bp[j], &c[j], (n-j-1)%16+1
			switch (n - j + 15) / 16 {
			case 1:
				gemm1TailAVX512(m, kp, ap, 4*a.row, 4*a.col, bj, 4*ldb, cj, 4*ldc, s, 4*ldstart, tail)
			case 2:
				gemm2TailAVX512(m, kp, ap, 4*a.row, 4*a.col, bj, 4*ldb, cj, 4*ldc, s, 4*ldstart, tail)
			case 3:
				gemm3TailAVX512(m, kp, ap, 4*a.row, 4*a.col, bj, 4*ldb, cj, 4*ldc, s, 4*ldstart, tail)
			case 4:
				gemm4TailAVX512(m, kp, ap, 4*a.row, 4*a.col, bj, 4*ldb, cj, 4*ldc, s, 4*ldstart, tail)
			default:
				gemm4TailAVX512(m, kp, ap, 4*a.row, 4*a.col, bj, 4*ldb, cj, 4*ldc, s, 4*ldstart, 16)
			}
		}
		start, ldstart = c, ldc
	}
}

func (avx2) gemm(m, n, k int, a matrix, b []float32, ldb int, c []float32, ldc int, start []float32, ldstart int) {
	checkGEMM(m, n, k, a, b, ldb, c, ldc, start, ldstart)
	if last := narrowColumns(m, n, 16, a); last > 0 {
		n -= last
		var s []float32
		if start != nil {
			s = start[n:]
		}
		narrowGEMM(false, m, last, k, a, b[n:], ldb, c[n:], ldc, s, ldstart)
	}
	for p := 0; p < k; p += depth {
		ap, bp, kp := &a.x[p*a.col], b[p*ldb:], min(depth, k-p)
		for j := 0; j < n; j += 16 {
			var s *float32
			if start != nil {
				s = &start[j]
			}
			bj, cj, tail := &bp[j], &c[j], (n-j)%8
			switch left := n - j; {
			case left < 8:
				gemm1TailAVX2(m, kp, ap, 4*a.row, 4*a.col, bj, 4*ldb, cj, 4*ldc, s, 4*ldstart, tail)
			case left == 8:
				gemm1AVX2(m, kp, ap, 4*a.row, 4*a.col, bj, 4*ldb, cj, 4*ldc, s, 4*ldstart)
			case left < 16:
				gemm2TailAVX2(m, kp, ap, 4*a.row, 4*a.col, bj, 4*ldb, cj, 4*ldc, s, 4*ldstart, tail)
			default:
				gemm2AVX2(m, kp, ap, 4*a.row, 4*a.col, bj, 4*ldb, cj, 4*ldc, s, 4*ldstart)
			}
		}
		start, ldstart = c, ldc
	}
}

// checkGEMM panics if an array is too short: the kernels do not check.
func checkGEMM(m, n, k int, a matrix, b []float32, ldb int, c []float32, ldc int, start []float32, ldstart int) {
	_ = a.x[(m-1)*a.row+(k-1)*a.col]
	_ = b[(k-1)*ldb+n-1]
	_ = c[(m-1)*ldc+n-1]
	if start != nil {
		_ = start[(m-1)*ldstart+n-1]
	}
}

func (avx512) activate(x []float32, relu bool) {
	if relu {
		reluAVX512(&x[0], len(x))
	} else {
		tanhAVX512(&x[0], len(x))
	}
}

func (avx2) activate(x []float32, relu bool) {
	if relu {
		reluAVX2(&x[0], len(x))
	} else {
		tanhAVX2(&x[0], len(x))
	}
}

func (avx512) derive(d, y []float32, relu bool) {
	_ = y[len(d)-1]
	if relu {
		reluGradAVX512(&d[0], &y[0], len(d))
	} else {
		tanhGradAVX512(&d[0], &y[0], len(d))
	}
}

func (avx2) derive(d, y []float32, relu bool) {
	_ = y[len(d)-1]
	if relu {
		reluGradAVX2(&d[0], &y[0], len(d))
	} else {
		tanhGradAVX2(&d[0], &y[0], len(d))
	}
}

func (avx512) sumRows(sum, d []float32, rows, ldd int) {
	_ = d[(rows-1)*ldd+len(sum)-1]
	sumRowsAVX512(&sum[0], &d[0], rows, 4*ldd, len(sum))
}

func (avx2) sumRows(sum, d []float32, rows, ldd int) {
	_ = d[(rows-1)*ldd+len(sum)-1]
	sumRowsAVX2(&sum[0], &d[0], rows, 4*ldd, len(sum))
}

func (avx512) maxRows(max []float32, row []int32, x []float32) {
	_ = row[len(max)-1]
	maxRowsAVX512(&max[0], &row[0], &x[0], len(x)/len(max), len(max))
}

func (avx2) maxRows(max []float32, row []int32, x []float32) {
	_ = row[len(max)-1]
	maxRowsAVX2(&max[0], &row[0], &x[0], len(x)/len(max), len(max))
}

func (avx512) add(y, x []float32) {
	_ = x[len(y)-1]
	addAVX512(&y[0], &x[0], len(y))
}

func (avx2) add(y, x []float32) {
	_ = x[len(y)-1]
	addAVX2(&y[0], &x[0], len(y))
}

func (avx512) addScaled(y, x []float32, a float32) {
	_ = x[len(y)-1]
	addScaledAVX512(&y[0], &x[0], len(y), a)
}

func (avx2) addScaled(y, x []float32, a float32) {
	_ = x[len(y)-1]
	addScaledAVX2(&y[0], &x[0], len(y), a)
}

func (avx512) normalize(y, xhat, gamma, beta []float32) (inverse float32) {
	n := len(y)
	_, _, _ = xhat[n-1], gamma[n-1], beta[n-1]
	normalizeAVX512(&y[0], &xhat[0], &gamma[0], &beta[0], &inverse, n, 1/float32(n), normEps)
	return inverse
}

func (avx512) normalizeGradient(d, xhat, gamma, weight []float32, inverse float32) {
	n := len(d)
	_, _, _ = xhat[n-1], gamma[n-1], weight[n-1]
	normalizeGradAVX512(&d[0], &xhat[0], &gamma[0], &weight[0], n, 1/float32(n), inverse)
}

func (avx2) normalize(y, xhat, gamma, beta []float32) (inverse float32) {
	n := len(y)
	_, _, _ = xhat[n-1], gamma[n-1], beta[n-1]
	normalizeAVX2(&y[0], &xhat[0], &gamma[0], &beta[0], &inverse, n, 1/float32(n), normEps)
	return inverse
}

func (avx2) normalizeGradient(d, xhat, gamma, weight []float32, inverse float32) {
	n := len(d)
	_, _, _ = xhat[n-1], gamma[n-1], weight[n-1]
	normalizeGradAVX2(&d[0], &xhat[0], &gamma[0], &weight[0], n, 1/float32(n), inverse)
}

func (sharedAVX) transpose(dst, src []float32, rows, cols int) {
	transposeTo(dst, rows, src, cols, rows, cols)
}

// transposeTo sets cols rows of dst, which start lddst apart, to the columns of src, whose rows start ldsrc apart. It
// transposes blocks of 8×8 with the kernel, and the edges in Go.
func transposeTo(dst []float32, lddst int, src []float32, ldsrc, rows, cols int) {
	_, _ = dst[(cols-1)*lddst+rows-1], src[(rows-1)*ldsrc+cols-1]
	i, blocks := 0, cols/8
	for ; blocks > 0 && i+8 <= rows; i += 8 {
		transpose8(&dst[i], 4*lddst, &src[i*ldsrc], 4*ldsrc, blocks)
	}
	transposeBlock(dst, lddst, src, ldsrc, 0, i, 8*blocks, cols)
	transposeBlock(dst, lddst, src, ldsrc, i, rows, 0, cols)
}
