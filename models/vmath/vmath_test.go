package vmath

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"
)

// points returns arguments of all kinds.
func points() []float64 {
	var xs []float64
	both := func(x float64) { xs = append(xs, x, -x) }
	rng := rand.New(rand.NewPCG(1, 2))
	for e := range uint64(2048) { // each exponent: subnormals first, infinity and NaN last
		both(math.Float64frombits(e << 52))
		both(math.Float64frombits(e<<52 | (1<<52 - 1)))
		for range 60 {
			both(math.Float64frombits(e<<52 | rng.Uint64()>>12))
		}
	}
	for k := range 1080 { // where the exponent of the result changes
		x := (float64(k) + 0.5) * math.Ln2
		for range 4 {
			both(x)
			x = math.Nextafter(x, math.Inf(1))
		}
	}
	// The limits of the kernels, of overflow, of subnormal results and of results above 0.
	for _, x := range []float64{0, 1, 708, 709, 709.782712893384, 708.3964185322641, 744.4400719213812, 745.1332191019411, 746} {
		down, up := x, x
		for range 10 {
			both(down)
			both(up)
			down, up = math.Nextafter(down, math.Inf(-1)), math.Nextafter(up, math.Inf(1))
		}
	}
	for range 1_000_000 {
		xs = append(xs, 1500*(rng.Float64()-0.5), rng.NormFloat64(), -40*rng.Float64())
	}
	return xs
}

// shiftedExp is ShiftedExp with another kernel.
func shiftedExp(k kernel, dst, x []float64, c float64) {
	defer func(b kernel) { best = b }(best)
	best = k
	ShiftedExp(dst, x, c)
}

// TestBits compares each kernel, and none, with math.Exp. The points that kernels leave to math.Exp
// lie between others as they come, and among 0s, so that kernels compute each lane beside them.
func TestBits(t *testing.T) {
	xs := points()
	for _, k := range append(kernels(), kernel{name: "none"}) {
		dst, x := make([]float64, len(xs)), make([]float64, len(xs))
		for _, c := range []float64{0, 0.3, -2.5} {
			copy(x, xs)
			shiftedExp(k, dst, x, c)
			for i := range xs {
				diff := xs[i] - c
				if !same(x[i], diff) || !same(dst[i], math.Exp(diff)) {
					t.Fatalf("%s: exp(%v - %v) is exp(%v) = %v, want exp(%v) = %v", k.name, xs[i], c, x[i], dst[i], diff, math.Exp(diff))
				}
			}
		}
	}
}

func same(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// TestLengths: kernels compute all elements of every length, touch nothing beyond, and stop at the
// vector of the first element that they cannot compute, wherever that is.
func TestLengths(t *testing.T) {
	lanes := map[string]int{"avx2": 4, "avx512": 8}
	for _, k := range kernels() {
		for n := 1; n <= 40; n++ {
			for bad := range n + 1 { // n: none
				for _, wrong := range []float64{709.1, -707.1, math.NaN(), math.Inf(1), math.Inf(-1)} {
					dst, x := make([]float64, n+8), make([]float64, n+8)
					for i := range x {
						dst[i], x[i] = -1, float64(i)
					}
					want := n
					if bad < n {
						x[bad], want = wrong, bad-bad%lanes[k.name]
					}
					if got := k.exp(&dst[0], &x[0], n, 1); got != want {
						t.Fatalf("%s: %d of %d elements where element %d is %v, want %d", k.name, got, n, bad, wrong, want)
					}
					for i := range x {
						was, is := float64(i), -1.0
						if i == bad && bad < n {
							was = wrong
						}
						if i < want {
							was, is = was-1, math.Exp(was-1)
						}
						if !same(x[i], was) || dst[i] != is {
							t.Fatalf("%s, %d elements, wrong at %d: element %d is exp(%v) = %v, want exp(%v) = %v", k.name, n, bad, i, x[i], dst[i], was, is)
						}
					}
				}
			}
		}
	}
}

// logPoints returns arguments of all kinds: those of exponentials, and more where f1 of the algorithm is about √2/2.
func logPoints() []float64 {
	xs := points()
	rng := rand.New(rand.NewPCG(3, 4))
	for e := -1074; e <= 1023; e += 3 {
		x := math.Ldexp(math.Sqrt2/2, e)
		for range 8 {
			xs = append(xs, x)
			x = math.Nextafter(x, 0)
		}
	}
	for range 1_000_000 {
		xs = append(xs, 1+rng.Float64(), 1+7*rng.Float64(), rng.Float64())
	}
	return xs
}

// TestLogBits compares each kernel, and none, with math.Log, at points as they come and in whole vectors that kernels
// compute.
func TestLogBits(t *testing.T) {
	xs := logPoints()
	var normal []float64
	for _, x := range xs {
		if x >= 0x1p-1022 && x <= math.MaxFloat64 {
			normal = append(normal, x)
		}
	}
	for _, k := range append(kernels(), kernel{name: "none"}) {
		for _, some := range [][]float64{xs, normal} {
			dst := make([]float64, len(some))
			func() {
				defer func(b kernel) { bestLog = b }(bestLog)
				bestLog = k
				Log(dst, some)
			}()
			for i, x := range some {
				if !same(dst[i], math.Log(x)) {
					t.Fatalf("%s: log(%v) = %v, want %v", k.name, x, dst[i], math.Log(x))
				}
			}
		}
		if n := len(normal) / 8 * 8; k.log != nil && k.log(&make([]float64, n)[0], &normal[0], n) != n {
			t.Errorf("%s leaves normal numbers to math.Log", k.name)
		}
	}
}

// TestLogLengths: kernels compute whole vectors before the first with an element that they cannot compute, and touch
// nothing beyond.
func TestLogLengths(t *testing.T) {
	lanes := map[string]int{"avx2": 4, "avx512": 8}
	for _, k := range kernels() {
		for n := 1; n <= 40; n++ {
			for bad := range n + 1 { // n: none
				for _, wrong := range []float64{0, math.Copysign(0, -1), -1, 0x1p-1023, math.NaN(), math.Inf(1), math.Inf(-1)} {
					dst, x := make([]float64, n+8), make([]float64, n+8)
					for i := range x {
						dst[i], x[i] = -1, float64(i+1)
					}
					want := n - n%lanes[k.name]
					if bad < n {
						x[bad], want = wrong, min(want, bad-bad%lanes[k.name])
					}
					if got := k.log(&dst[0], &x[0], n); got != want {
						t.Fatalf("%s: %d of %d elements where element %d is %v, want %d", k.name, got, n, bad, wrong, want)
					}
					for i := range x {
						is := -1.0
						if i < want {
							is = math.Log(x[i])
						}
						if !same(dst[i], is) {
							t.Fatalf("%s, %d elements, wrong at %d: element %d is %v, want %v", k.name, n, bad, i, dst[i], is)
						}
					}
				}
			}
		}
	}
}

// TestKernelInUse fails where the CPU could run a kernel and none agrees with this Go's math.Exp or math.Log.
func TestKernelInUse(t *testing.T) {
	if ks := kernels(); len(ks) > 0 && bestLog.name != ks[0].name {
		t.Errorf("kernel %q in use for logarithms, want %q: it does not give the bits of math.Log", bestLog.name, ks[0].name)
	}
	if ks := kernels(); len(ks) > 0 && best.name != ks[0].name {
		t.Errorf("kernel %q in use, want %q: it does not give the bits of math.Exp", best.name, ks[0].name)
	}
}

// TestAgrees: a kernel with one wrong bit at one point is left out.
func TestAgrees(t *testing.T) {
	wrong := -1 // the call that errs
	fake := kernel{exp: func(dst, x *float64, n int, _ float64) int {
		d, s := unsafe.Slice(dst, n), unsafe.Slice(x, n)
		for i := range s {
			d[i] = math.Exp(s[i])
			if i == wrong {
				d[i] = math.Nextafter(d[i], 0)
			}
		}
		return n
	}}
	if !fake.agrees() {
		t.Fatal("math.Exp does not agree with itself")
	}
	for wrong = range 255 {
		if fake.agrees() {
			t.Errorf("a wrong bit at point %d is not seen", wrong)
		}
	}
}

// TestLogAgrees: likewise with logarithms.
func TestLogAgrees(t *testing.T) {
	wrong := -1
	fake := kernel{log: func(dst, x *float64, n int) int {
		d, s := unsafe.Slice(dst, n), unsafe.Slice(x, n)
		for i := range s {
			d[i] = math.Log(s[i])
			if i == wrong {
				d[i] = math.Nextafter(d[i], math.Inf(-1))
			}
		}
		return n
	}}
	if !fake.logAgrees() {
		t.Fatal("math.Log does not agree with itself")
	}
	for wrong = range 512 {
		if fake.logAgrees() {
			t.Errorf("a wrong bit at point %d is not seen", wrong)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	dst, x := make([]float64, 65), make([]float64, 65)
	x[40] = 800
	if n := testing.AllocsPerRun(100, func() { Log(dst, x) }); n != 0 {
		t.Errorf("Log: %v allocs/op, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { ShiftedExp(dst, x, 0) }); n != 0 {
		t.Errorf("%v allocs/op, want 0", n)
	}
}

func BenchmarkShiftedExp(b *testing.B) {
	for _, k := range append(kernels(), kernel{name: "none"}) {
		for _, n := range []int{2, 4, 33, 600} {
			b.Run(k.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				defer func(k kernel) { best = k }(best)
				best = k
				dst, x := make([]float64, n), make([]float64, n)
				for i := range x {
					x[i] = -float64(i % 40)
				}
				for b.Loop() {
					ShiftedExp(dst, x, 0)
				}
			})
		}
	}
}

func BenchmarkLog(b *testing.B) {
	for _, k := range append(kernels(), kernel{name: "none"}) {
		b.Run(k.name, func(b *testing.B) {
			defer func(k kernel) { bestLog = k }(bestLog)
			bestLog = k
			dst, x := make([]float64, 64), make([]float64, 64)
			for i := range x {
				x[i] = 1 + float64(i)/64
			}
			for b.Loop() {
				Log(dst, x)
			}
		})
	}
}
