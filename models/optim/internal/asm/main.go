// Command asm generates the kernels of package optim for AVX2 and AVX-512. Each processes a
// multiple of its block of elements. Go code with the same formulas, and so the same bits,
// processes the rest.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is one instruction set.
type isa struct {
	name  string
	lanes int // of float32
}

func (v isa) vec() reg.VecVirtual {
	if v.lanes == 16 {
		return ZMM()
	}
	return YMM()
}

func (v isa) function(name, args, doc string) {
	TEXT(name+v.name, NOSPLIT, "func("+args+")")
	Pragma("noescape")
	Doc(name + v.name + " " + doc)
}

func (v isa) end() {
	VZEROUPPER()
	RET()
}

func pointer(name string) Mem {
	p := GP64()
	Load(Param(name), p)
	return Mem{Base: p}
}

// each repeats body for n elements, a multiple of block.
func each(n reg.GPVirtual, block int, pointers []Mem, body func()) {
	Label("loop")
	TESTQ(n, n)
	JZ(LabelRef("end"))
	body()
	for _, p := range pointers {
		ADDQ(U32(uint32(4*block)), p.Base)
	}
	SUBQ(U32(uint32(block)), n)
	JMP(LabelRef("loop"))
	Label("end")
}

func (v isa) adam() {
	v.function("adam", "value, grad, m, v *float32, n int, beta1, rest1, beta2, rest2, size, root, inverse, eps float32",
		"makes a step of Adam, with each product, quotient and root rounded as Go rounds it. inverse is 1/root.")
	value, grad, mean, square := pointer("value"), pointer("grad"), pointer("m"), pointer("v")
	n := GP64()
	Load(Param("n"), n)
	constant := func(name string) reg.VecVirtual {
		r := v.vec()
		a, err := Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		VBROADCASTSS(a.Addr, r)
		return r
	}
	beta1, rest1, beta2, rest2 := constant("beta1"), constant("rest1"), constant("beta2"), constant("rest2")
	size, root, eps := constant("size"), constant("root"), constant("eps")
	inverse := constant("inverse")
	each(n, v.lanes, []Mem{value, grad, mean, square}, func() {
		g, a, b, c := v.vec(), v.vec(), v.vec(), v.vec()
		VMOVUPS(grad, g)
		VMULPS(mean, beta1, a)
		VMULPS(g, rest1, b)
		VADDPS(b, a, a)
		VMOVUPS(a, mean)
		VMULPS(square, beta2, b)
		VMULPS(g, g, c)
		VMULPS(c, rest2, c)
		VADDPS(c, b, b)
		VMOVUPS(b, square)
		VSQRTPS(b, b)
		v.quotient(b, root, inverse)
		VADDPS(eps, b, b)
		VDIVPS(b, a, a)
		VMULPS(a, size, a)
		VMOVUPS(value, c)
		VSUBPS(a, c, c)
		VMOVUPS(c, value)
	})
	v.end()
}

// quotient replaces x, which is not negative, by x/root rounded once, for a root of at most 1; inverse is 1/root. A
// division instruction would take longer. The remainder of the first quotient is exact, and the error of the correction
// is less than the distance of any quotient from the midpoint between two floats. If x is infinite or NaN, the
// correction is NaN, and the maximum selects x.
//
// Source: Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM Journal of
// Research and Development 34 (1990).
func (v isa) quotient(x, root, inverse reg.VecVirtual) {
	q, r := v.vec(), v.vec()
	VMULPS(inverse, x, q)
	VMOVAPS(x, r)
	VFNMADD231PS(q, root, r)
	VFMADD231PS(inverse, r, q)
	VMAXPS(x, q, x)
}

// sumLanes is the number of sums that sumSquares keeps, whatever the instruction set.
const sumLanes = 32

func (v isa) sumSquares() {
	v.function("sumSquares", "x *float32, n int, sums *float64",
		"adds the square of element i to sums[i%32].")
	x, sums := pointer("x"), pointer("sums")
	n := GP64()
	Load(Param("n"), n)
	wide := v.lanes / 2 // float64 in a vector
	acc := make([]reg.VecVirtual, sumLanes/wide)
	for i := range acc {
		acc[i] = v.vec()
		VMOVUPD(sums.Offset(8*wide*i), acc[i])
	}
	each(n, sumLanes, []Mem{x}, func() {
		for i := range acc {
			d := v.vec()
			VCVTPS2PD(x.Offset(4*wide*i), d)
			VMULPD(d, d, d)
			VADDPD(d, acc[i], acc[i])
		}
	})
	for i := range acc {
		VMOVUPD(acc[i], sums.Offset(8*wide*i))
	}
	v.end()
}

func (v isa) scale() {
	v.function("scale", "x *float32, n int, c float32", "multiplies each element by c.")
	x := pointer("x")
	n := GP64()
	Load(Param("n"), n)
	a, err := Param("c").Resolve()
	if err != nil {
		panic(err)
	}
	c := v.vec()
	VBROADCASTSS(a.Addr, c)
	each(n, v.lanes, []Mem{x}, func() {
		y := v.vec()
		VMULPS(x, c, y)
		VMOVUPS(y, x)
	})
	v.end()
}

func main() {
	ConstraintExpr("!purego")
	for _, v := range []isa{{"AVX2", 8}, {"AVX512", 16}} {
		v.adam()
		v.sumSquares()
		v.scale()
	}
	Generate()
}
