package fused

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/models/internal/oracle"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/diff/fd"
)

// A product is a case of gemm.
type product struct {
	m, n, k    int
	transposed bool // a lies transposed in memory
	start      int  // 0: nil, 1: one row repeated, 2: c itself, 3: another matrix
	pad        int  // of all rows
	seed       uint64
}

// arrays returns the operands, as many elements as the product may touch; the rest of a row
// of c is -7.
func (p product) arrays() (a matrix, b []float32, c []float32, start []float32, ldstart int) {
	rng := rand.New(rand.NewPCG(p.seed, 7))
	random := func(rows, cols int) []float32 {
		x := make([]float32, (rows-1)*(cols+p.pad)+cols)
		oracle.Fill(x, rng)
		return x
	}
	a = matrix{random(p.m, p.k), p.k + p.pad, 1}
	if p.transposed {
		a = matrix{random(p.k, p.m), 1, p.m + p.pad}
	}
	b, c = random(p.k, p.n), random(p.m, p.n)
	for i := range c {
		if i%(p.n+p.pad) >= p.n {
			c[i] = -7
		}
	}
	switch p.start {
	case 1:
		start = random(1, p.n)
	case 2:
		start, ldstart = c, p.n+p.pad
	case 3:
		start, ldstart = random(p.m, p.n), p.n+p.pad
	}
	return a, b, c, start, ldstart
}

// want returns the sums in float64, of gonum's product, and those of absolute values.
func (p product) want(a matrix, b, c, start []float32, ldstart int) (sums, sizes []float64) {
	sums, sizes = make([]float64, p.m*p.n), make([]float64, p.m*p.n)
	if start != nil {
		for i := range p.m {
			for j := range p.n {
				sums[i*p.n+j] = float64(start[i*ldstart+j])
				sizes[i*p.n+j] = math.Abs(float64(start[i*ldstart+j]))
			}
		}
	}
	x, y := oracle.Float64s(a.x), oracle.Float64s(b)
	multiply := func(z []float64) {
		trans, ga := blas.NoTrans, blas64.General{Rows: p.m, Cols: p.k, Stride: a.row, Data: x}
		if p.transposed {
			trans, ga = blas.Trans, blas64.General{Rows: p.k, Cols: p.m, Stride: a.col, Data: x}
		}
		blas64.Gemm(trans, blas.NoTrans, 1, ga, blas64.General{Rows: p.k, Cols: p.n, Stride: p.n + p.pad, Data: y},
			1, blas64.General{Rows: p.m, Cols: p.n, Stride: p.n, Data: z})
	}
	multiply(sums)
	for _, v := range [][]float64{x, y} {
		for i := range v {
			v[i] = math.Abs(v[i])
		}
	}
	multiply(sizes)
	return sums, sizes
}

// checkProduct compares every variant with float64 and those of vectors with each other.
func checkProduct(t *testing.T, p product) {
	t.Helper()
	bits := map[string][]uint32{}
	for _, v := range variants() {
		a, b, c, start, ldstart := p.arrays()
		sums, sizes := p.want(a, b, c, start, ldstart)
		ldc := p.n + p.pad
		v.gemm(p.m, p.n, p.k, a, b, ldc, c, ldc, start, ldstart)
		for i, got := range c {
			row, col := i/ldc, i%ldc
			if col >= p.n {
				if got != -7 {
					t.Fatalf("%s %+v: wrote %v between rows", v.name, p, got)
				}
				continue
			}
			// k+1 roundings, each of at most half an ulp of the sum of sizes.
			want, size := sums[row*p.n+col], sizes[row*p.n+col]
			if !(math.Abs(float64(got)-want) <= size*float64(p.k+1)*0x1p-24) {
				t.Fatalf("%s %+v: c[%d,%d] = %v, want %v", v.name, p, row, col, got, want)
			}
		}
		bits[v.name] = bitsOf(c)
	}
	if a, b := bits["avx2"], bits["avx512"]; a != nil && b != nil && !slices.Equal(a, b) {
		t.Errorf("%+v: AVX2 and AVX-512 differ", p)
	}
}

// TestNarrowGEMM: the last columns of a product have the bits that they have among others.
func TestNarrowGEMM(t *testing.T) {
	const strip = 64
	rng := rand.New(rand.NewPCG(3, 4))
	for _, v := range variants() {
		if v.name == "gonum" {
			continue // its order of sums depends on the shape
		}
		for n := 1; n <= 6; n++ {
			for start := range 4 {
				for _, m := range []int{1, 7, 8, 31, 32, 33, 64, 67, 129, 200} {
					for _, transposed := range []bool{false, true} {
						p := product{n: strip + n, m: m, k: 1 + rng.IntN(300), transposed: transposed, start: start, pad: 2, seed: rng.Uint64()}
						a, b, c, s, ldstart := p.arrays()
						ld := p.n + p.pad
						b, c = slices.Grow(b, 16)[:len(b)+16], slices.Grow(c, 16)[:len(c)+16]
						if start == 2 {
							s = c
						}
						s = append(slices.Clone(s), make([]float32, 16)...)
						if start == 0 {
							s = nil
						}
						want := slices.Clone(c)
						v.gemm(m, 12, p.k, a, b[strip:], ld, want[strip:], ld, after(s, strip), ldstart) // a vector that is nearly full
						got := slices.Clone(c)
						v.gemm(m, n, p.k, a, b[strip:], ld, got[strip:], ld, after(s, strip), ldstart)
						for i := range m {
							for j := range n {
								at := i*ld + strip + j
								if math.Float32bits(got[at]) != math.Float32bits(want[at]) {
									t.Fatalf("%s %+v: c[%d,%d] = %v, want %v", v.name, p, i, j, got[at], want[at])
								}
							}
						}
					}
				}
			}
		}
	}
}

func after(x []float32, i int) []float32 {
	if x == nil {
		return nil
	}
	return x[i:]
}

func TestGEMM(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 70; n++ {
		for start := range 4 {
			for _, transposed := range []bool{false, true} {
				p := product{n: n, m: 1 + rng.IntN(70), k: 1 + rng.IntN(70), transposed: transposed, start: start, pad: rng.IntN(3), seed: rng.Uint64()}
				checkProduct(t, p)
				p.m = 1 + n%13
				checkProduct(t, p)
			}
		}
	}
	for _, p := range []product{
		{m: 64, n: 64, k: 64}, {m: 5, n: 200, k: 300, start: 1}, {m: 130, n: 129, k: 128, start: 2, transposed: true},
		{m: 3, n: 7, k: 129, start: 3, pad: 2}, {m: 200, n: 1, k: 513, transposed: true},
	} {
		checkProduct(t, p)
	}
}

func FuzzGEMM(f *testing.F) {
	f.Add(uint8(64), uint8(9), uint8(64), uint8(1), uint8(0), uint64(1))
	f.Add(uint8(1), uint8(64), uint8(32), uint8(6), uint8(2), uint64(2))
	f.Fuzz(func(t *testing.T, m, n, k, kind, pad uint8, seed uint64) {
		checkProduct(t, product{m: 1 + int(m), n: 1 + int(n), k: 1 + int(k), transposed: kind&4 != 0,
			start: int(kind & 3), pad: int(pad % 20), seed: seed})
	})
}

// tanh over its whole range, denormal numbers and the ends.
func TestTanh(t *testing.T) {
	x := []float32{0, float32(math.Inf(1)), float32(math.Inf(-1)), math.SmallestNonzeroFloat32, math.MaxFloat32, -8, 8}
	for v := float32(1e-38); v < 20; v *= 1.001 {
		x = append(x, v, -v)
	}
	var bits [][]uint32
	for _, v := range variants() {
		y := slices.Clone(x)
		v.activate(y, false)
		for i, got := range y {
			want := math.Tanh(float64(x[i]))
			// 4 ulp, of which one is 2^-23 of the value or, of denormal numbers, 2^-149.
			if d := math.Abs(float64(got) - want); !(d <= 4*max(0x1p-23*math.Abs(want), 0x1p-149)) || math.Abs(float64(got)) > 1 {
				t.Fatalf("%s: tanh(%v) = %v, want %v", v.name, x[i], got, want)
			}
		}
		if v.name != "gonum" {
			bits = append(bits, bitsOf(y))
		}
	}
	if len(bits) == 2 && !slices.Equal(bits[0], bits[1]) {
		t.Error("AVX2 and AVX-512 differ")
	}
}

// Elementwise passes and sums against plain formulas that round as they do, for each length
// around those of vectors.
func TestElementwise(t *testing.T) {
	for _, v := range variants() {
		for n := 1; n <= 140; n++ {
			y, d := oracle.Normal(n, 1), oracle.Normal(n, 2)
			y[n/2] = 0
			check := func(name string, f func(d, y []float32), want func(d, y float32) float32) {
				t.Helper()
				got := slices.Clone(d)
				f(got, y)
				for i := range got {
					if w := want(d[i], y[i]); got[i] != w {
						t.Fatalf("%s %s of %d: %d is %v, want %v", v.name, name, n, i, got[i], w)
					}
				}
			}
			check("relu", func(d, _ []float32) { v.activate(d, true) }, func(d, _ float32) float32 { return max(d, 0) })
			check("relu's gradient", func(d, y []float32) { v.derive(d, y, true) }, func(d, y float32) float32 {
				if y > 0 {
					return d
				}
				return 0
			})
			check("tanh's gradient", func(d, y []float32) { v.derive(d, y, false) },
				func(d, y float32) float32 { return d * (1 - float32(y*y)) })
			check("add", v.add, func(d, y float32) float32 { return d + y })
		}
	}
}

// y + a·x with one rounding where the CPU fuses, with two where not.
func TestAddScaled(t *testing.T) {
	const a = float32(0.7)
	for _, v := range variants() {
		for n := 1; n <= 140; n++ {
			x, y := oracle.Normal(n, 1), oracle.Normal(n, 2)
			got := slices.Clone(y)
			v.addScaled(got, x, a)
			for i := range got {
				want := float32(math.FMA(float64(a), float64(x[i]), float64(y[i])))
				if v.name == "gonum" {
					want = y[i] + float32(a*x[i])
				}
				if got[i] != want {
					t.Fatalf("%s: y[%d] of %d is %v, want %v", v.name, i, n, got[i], want)
				}
			}
		}
	}
}

func TestSumRows(t *testing.T) {
	for _, v := range variants() {
		for n := 1; n <= 140; n++ {
			rows, ldd := 1+n%7, n+n%3
			d, got := oracle.Normal(rows*ldd, 1), oracle.Normal(n, 2)
			want := slices.Clone(got)
			for r := range rows {
				for j := range want {
					want[j] += d[r*ldd+j]
				}
			}
			if v.sumRows(got, d, rows, ldd); !slices.Equal(got, want) {
				t.Fatalf("%s: sums of %d rows of %d are %v, want %v", v.name, rows, n, got, want)
			}
		}
	}
}

// Small whole numbers give equal maxima, of which the first row counts.
func TestMaxRows(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	rng := rand.New(rand.NewPCG(1, 2))
	for _, v := range variants() {
		for n := 1; n <= 70; n++ {
			rows := 1 + rng.IntN(20)
			x := make([]float32, rows*n)
			for i := range x {
				x[i] = []float32{-2, -1, 0, 1, 2, inf, -inf, nan, -1, 0}[rng.IntN(10-2*(n%2))]
			}
			got, row := make([]float32, n), make([]int32, n)
			v.maxRows(got, row, x)
			for j := range n {
				want := 0
				for i := range rows {
					a, b := x[i*n+j], x[want*n+j]
					if b == b && (a != a || a > b) {
						want = i
					}
				}
				if w := x[want*n+j]; row[j] != int32(want) || got[j] != w && (got[j] == got[j] || w == w) {
					t.Fatalf("%s: maximum %d of %d rows of %d is %v of row %d, want %v of row %d", v.name, j, rows, n, got[j], row[j], w, want)
				}
			}
		}
	}
}

// Against the formulas of torch.nn.LayerNorm in float64, and central differences of them for
// the gradient, for each length around those of blocks.
func TestNormalize(t *testing.T) {
	norm := func(x, gamma, beta []float64) []float64 {
		mean, variance, n := 0.0, 0.0, float64(len(x))
		for _, v := range x {
			mean += v / n
		}
		for _, v := range x {
			variance += (v - mean) * (v - mean) / n
		}
		y := make([]float64, len(x))
		for j, v := range x {
			y[j] = (v-mean)/math.Sqrt(variance+1e-5)*gamma[j] + beta[j]
		}
		return y
	}
	bits := map[string][]uint32{}
	for _, v := range variants() {
		for n := 1; n <= 70; n++ {
			x, gamma, beta, d, weight := oracle.Normal(n, 1), oracle.Normal(n, 2), oracle.Normal(n, 3), oracle.Normal(n, 4), oracle.Normal(n, 5)
			y, xhat := slices.Clone(x), make([]float32, n)
			inverse := v.normalize(y, xhat, gamma, beta)
			want := norm(oracle.Float64s(x), oracle.Float64s(gamma), oracle.Float64s(beta))
			for j := range y {
				// Two numbers close to each other have a mean with the rounding of their sizes.
				if !(math.Abs(float64(y[j])-want[j]) <= 1e-5*(1+math.Abs(want[j]))) {
					t.Fatalf("%s: y[%d] of %d is %v, want %v", v.name, j, n, y[j], want[j])
				}
			}
			dx, dGamma := slices.Clone(d), slices.Clone(weight)
			v.normalizeGradient(dx, xhat, gamma, dGamma, inverse)
			loss := func(x []float64) float64 {
				s := 0.0
				for j, y := range norm(x, oracle.Float64s(gamma), oracle.Float64s(beta)) {
					s += y * float64(d[j])
				}
				return s
			}
			for j, want := range fd.Gradient(nil, loss, oracle.Float64s(x), &fd.Settings{Formula: fd.Central}) {
				if !(math.Abs(float64(dx[j])-want) <= 1e-5*(1+math.Abs(want))*float64(max(1, inverse))) {
					t.Fatalf("%s: gradient %d of %d is %v, want %v", v.name, j, n, dx[j], want)
				}
				if want := float64(weight[j]) + float64(d[j])*float64(xhat[j]); !(math.Abs(float64(dGamma[j])-want) <= 1e-6*(1+math.Abs(want))) {
					t.Fatalf("%s: gradient of gamma %d of %d is %v, want %v", v.name, j, n, dGamma[j], want)
				}
			}
			bits[v.name] = append(bits[v.name], bitsOf(y, xhat, dx, dGamma, []float32{inverse})...)
		}
	}
	if a, b := bits["avx2"], bits["avx512"]; a != nil && b != nil && !slices.Equal(a, b) {
		t.Error("AVX2 and AVX-512 differ")
	}
}

func TestTranspose(t *testing.T) {
	for _, v := range variants() {
		for rows := 1; rows <= 35; rows++ {
			for cols := 1; cols <= 35; cols++ {
				src, dst := oracle.Normal(rows*cols, 1), make([]float32, rows*cols)
				v.transpose(dst, src, rows, cols)
				for i, x := range src {
					if got := dst[i%cols*rows+i/cols]; got != x {
						t.Fatalf("%s: %d×%d: element %d is %v, want %v", v.name, rows, cols, i, got, x)
					}
				}
			}
		}
	}
}
