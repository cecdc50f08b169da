//go:build linux

package fused

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/kubernasium/kubernasium/models/internal/oracle"
)

// A guard is memory between two pages that cannot be touched.
type guard []byte

func newGuard(t *testing.T) guard {
	t.Helper()
	page := os.Getpagesize()
	m, err := syscall.Mmap(-1, 0, 18*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	for _, p := range [][]byte{m[:page], m[17*page:]} {
		if err := syscall.Mprotect(p, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return guard(m[page : 17*page])
}

// hold copies x to the end of the guarded memory, or to its start.
func (g guard) hold(x []float32, end bool) []float32 {
	all := unsafe.Slice((*float32)(unsafe.Pointer(&g[0])), len(g)/4)
	for i := range all {
		all[i] = -7
	}
	at := 0
	if end {
		at = len(all) - len(x)
	}
	y := all[at : at+len(x) : at+len(x)]
	copy(y, x)
	return y
}

// intact reports whether the memory besides x, which hold returned, is as hold left it.
func (g guard) intact(x []float32) bool {
	all := unsafe.Slice((*float32)(unsafe.Pointer(&g[0])), len(g)/4)
	rest := all[len(x):]
	if &x[0] != &all[0] {
		rest = all[:len(all)-len(x)]
	}
	return !slices.ContainsFunc(rest, func(v float32) bool { return v != -7 })
}

// guarded runs a kernel on copies of arrays that lie at the ends, then at the starts, of
// guarded memory. It fails if the kernel faults or writes to where it should not.
func guarded(t *testing.T, what string, guards []guard, arrays [][]float32, f func(x [][]float32)) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, end := range []bool{true, false} {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("%s, at the end %v: %v", what, end, r)
				}
			}()
			held := make([][]float32, len(arrays))
			for i, x := range arrays {
				held[i] = guards[i].hold(x, end)
			}
			f(held)
			for i := range held {
				if !guards[i].intact(held[i]) {
					t.Fatalf("%s, at the end %v: wrote outside array %d", what, end, i)
				}
			}
		}()
	}
}

// No kernel reads or writes beyond its arrays.
func TestGuardPages(t *testing.T) {
	var guards []guard
	for range 4 {
		guards = append(guards, newGuard(t))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, v := range variants() {
		for n := 1; n <= 70; n++ {
			what := fmt.Sprint(v.name, ", n = ", n)
			for start := range 4 {
				for _, transposed := range []bool{false, true} {
					for _, m := range []int{1, 2 + rng.IntN(5), 7 + rng.IntN(30)} {
						p := product{m: m, n: n, k: 1 + rng.IntN(40), transposed: transposed, start: start, pad: rng.IntN(2)}
						guardProduct(t, v, guards, p)
					}
				}
			}
			two := [][]float32{oracle.Normal(n, 1), oracle.Normal(n, 2)}
			for _, relu := range []bool{false, true} {
				guarded(t, what+" activate", guards, two[:1], func(x [][]float32) { v.activate(x[0], relu) })
				guarded(t, what+" derive", guards, two, func(x [][]float32) { v.derive(x[0], x[1], relu) })
			}
			guarded(t, what+" add", guards, two, func(x [][]float32) { v.add(x[0], x[1]) })
			guarded(t, what+" addScaled", guards, two, func(x [][]float32) { v.addScaled(x[0], x[1], 0.5) })
			norm := [][]float32{oracle.Normal(n, 1), oracle.Normal(n, 2), oracle.Normal(n, 3), oracle.Normal(n, 4)}
			guarded(t, what+" normalize", guards, norm, func(x [][]float32) { v.normalize(x[0], x[1], x[2], x[3]) })
			guarded(t, what+" normalizeGradient", guards, norm, func(x [][]float32) { v.normalizeGradient(x[0], x[1], x[2], x[3], 0.5) })
			table := [][]float32{oracle.Normal(n, 1), oracle.Normal(n, 2), oracle.Normal(5*n, 3)}
			guarded(t, what+" maxRows", guards, table, func(x [][]float32) {
				v.maxRows(x[0], unsafe.Slice((*int32)(unsafe.Pointer(&x[1][0])), n), x[2])
			})
			for _, pad := range []int{0, 3} {
				rows := [][]float32{oracle.Normal(n, 1), oracle.Normal(4*(n+pad)+n, 2)}
				guarded(t, what+" sumRows", guards, rows, func(x [][]float32) { v.sumRows(x[0], x[1], 5, n+pad) })
			}
			cols := 1 + rng.IntN(40)
			square := [][]float32{oracle.Normal(n*cols, 1), oracle.Normal(n*cols, 2)}
			guarded(t, what+" transpose", guards, square, func(x [][]float32) { v.transpose(x[0], x[1], n, cols) })
		}
	}
}

func guardProduct(t *testing.T, v variant, guards []guard, p product) {
	t.Helper()
	a, b, c, start, ldstart := p.arrays()
	arrays := [][]float32{a.x, b, c}
	if p.start == 1 || p.start == 3 {
		arrays = append(arrays, start)
	}
	guarded(t, fmt.Sprintf("%s %+v", v.name, p), guards, arrays, func(x [][]float32) {
		s := start
		switch p.start {
		case 1, 3:
			s = x[3]
		case 2:
			s = x[2]
		}
		v.gemm(p.m, p.n, p.k, matrix{x[0], a.row, a.col}, x[1], p.n+p.pad, x[2], p.n+p.pad, s, ldstart)
	})
}
