package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func bits(x float32) uint32 { return math.Float32bits(x) }

// elementwise generates a function over n elements of arrays. body gets pointers to the current
// vectors, and the mask of the last one. prepare loads the arguments after n.
func (v *isa) elementwise(name, doc string, arrays []string, prepare func(), body func(p []Mem, m *mask), more ...string) {
	v.elementwiseBy(1, name, doc, arrays, prepare, body, more...)
}

// elementwiseBy is elementwise with a loop before that passes several vectors of each array to body at a time.
func (v *isa) elementwiseBy(several int, name, doc string, arrays []string, prepare func(), body func(p []Mem, m *mask), more ...string) {
	args := ""
	for _, a := range arrays {
		args += a + " *float32, "
	}
	args += "n int"
	for _, a := range more {
		args += ", " + a
	}
	v.function(name, args, doc)
	pointers := make([]reg.GPVirtual, len(arrays))
	for i, a := range arrays {
		pointers[i] = GP64()
		Load(Param(a), pointers[i])
	}
	n := GP64()
	Load(Param("n"), n)
	prepare()
	at := func(vectors int) (p []Mem) {
		for j := range vectors {
			for _, base := range pointers {
				p = append(p, Mem{Base: base, Disp: j * v.bytes()})
			}
		}
		return p
	}
	loop := func(name, end string, vectors int) {
		Label(name)
		SUBQ(U32(uint32(vectors*v.lanes)), n)
		JL(LabelRef(end))
		body(at(vectors), nil)
		for _, p := range pointers {
			ADDQ(U32(uint32(vectors*v.bytes())), p)
		}
		JMP(LabelRef(name))
		Label(end)
		ADDQ(U32(uint32(vectors*v.lanes)), n)
	}
	if several > 1 {
		loop("several", "last", several)
	}
	loop("vectors", "tail", 1)
	JEQ(LabelRef("end"))
	body(at(1), v.mask(n))
	Label("end")
	v.end()
}

// Coefficients of tanh from Eigen, MathFunctionsImpl.h, ptanh_float, those of the numerator
// over x and of the denominator, in x², from the highest; gonum.go has them, too.
var (
	tanhP = []float32{-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11,
		5.12229709037114e-08, 1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03}
	tanhQ   = []float32{1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03}
	tanhMax = float32(7.90531110763549805)
)

func (v *isa) tanh() {
	// AVX-512 has registers for all constants; AVX2 reloads them.
	kept := map[float32]reg.VecVirtual{}
	get := func(x float32) reg.VecVirtual {
		if r, ok := kept[x]; ok {
			return r
		}
		r := v.vec()
		VBROADCASTSS(constant(x), r)
		return r
	}
	prepare := func() {
		if !v.wide {
			return
		}
		for _, c := range append(append([]float32{tanhMax, -tanhMax}, tanhP...), tanhQ...) {
			kept[c] = get(c)
		}
	}
	polynomials := func(coefficients []float32, z []reg.VecVirtual) []reg.VecVirtual {
		p := v.vecs(len(z))
		for i := range p {
			VBROADCASTSS(constant(coefficients[0]), p[i])
		}
		for _, c := range coefficients[1:] {
			r := get(c)
			for i := range p {
				VFMADD213PS(r, z[i], p[i])
			}
		}
		return p
	}
	several := 1
	if !v.wide {
		several = 3 // they share the constants, and fit into the registers
	}
	v.elementwiseBy(several, "tanh", "replaces each of n numbers by its hyperbolic tangent.", []string{"x"}, prepare, func(p []Mem, m *mask) {
		x, z := v.vecs(len(p)), v.vecs(len(p))
		high, low := get(tanhMax), get(-tanhMax)
		for i := range p {
			v.load(p[i], m, x[i])
			VMINPS(x[i], high, x[i]) // min and max return their first operand here if it is NaN
			VMAXPS(x[i], low, x[i])
			VMULPS(x[i], x[i], z[i])
		}
		num, den := polynomials(tanhP, z), polynomials(tanhQ, z)
		for i := range p {
			VDIVPS(den[i], num[i], num[i]) // before the product with x, which would lose bits of a tiny x
			VMULPS(x[i], num[i], num[i])
			v.store(num[i], m, p[i])
		}
	})
}

func (v *isa) tanhGrad() {
	var one reg.VecVirtual
	prepare := func() { one = v.vec(); VBROADCASTSS(constant(1), one) }
	v.elementwise("tanhGrad", "multiplies d by 1-y².", []string{"d", "y"}, prepare, func(p []Mem, m *mask) {
		d, y := v.vec(), v.vec()
		v.load(p[0], m, d)
		v.load(p[1], m, y)
		VMULPS(y, y, y)
		VSUBPS(y, one, y)
		VMULPS(y, d, d)
		v.store(d, m, p[0])
	})
}

func (v *isa) relu() {
	var zero reg.VecVirtual
	prepare := func() { zero = v.vec(); VXORPS(zero, zero, zero) }
	v.elementwise("relu", "replaces each of n numbers x by max(x, 0).", []string{"x"}, prepare, func(p []Mem, m *mask) {
		x := v.vec()
		v.load(p[0], m, x)
		VMAXPS(x, zero, x) // NaN remains NaN
		v.store(x, m, p[0])
	})
}

func (v *isa) reluGrad() {
	var zero reg.VecVirtual
	prepare := func() { zero = v.vec(); VXORPS(zero, zero, zero) }
	v.elementwise("reluGrad", "sets d to 0 where y is not positive.", []string{"d", "y"}, prepare, func(p []Mem, m *mask) {
		const greater = 0x1e // GT_OQ
		d, y := v.vec(), v.vec()
		v.load(p[0], m, d)
		v.load(p[1], m, y)
		if v.wide {
			positive := K()
			VCMPPS(U8(greater), zero, y, positive)
			VMOVAPS_Z(d, positive, d)
		} else {
			VCMPPS(U8(greater), zero, y, y)
			VANDPS(y, d, d)
		}
		v.store(d, m, p[0])
	})
}

func (v *isa) add() {
	v.elementwise("add", "adds x to y.", []string{"y", "x"}, func() {}, func(p []Mem, m *mask) {
		x, y := v.vec(), v.vec()
		v.load(p[0], m, y)
		v.load(p[1], m, x)
		VADDPS(x, y, y)
		v.store(y, m, p[0])
	})
}

func (v *isa) addScaled() {
	var a reg.VecVirtual
	prepare := func() {
		x := XMM()
		Load(Param("a"), x)
		a = v.vec()
		VBROADCASTSS(x, a)
	}
	v.elementwise("addScaled", "adds a·x to y.", []string{"y", "x"}, prepare, func(p []Mem, m *mask) {
		x, y := v.vec(), v.vec()
		v.load(p[0], m, y)
		v.load(p[1], m, x)
		VFMADD231PS(x, a, y)
		v.store(y, m, p[0])
	}, "a float32")
}

// sumRows generates a loop over strips of four columns of vectors, then of one.
func (v *isa) sumRows() {
	v.function("sumRows", "sum, d *float32, rows, ldd, n int", "adds rows of d, n elements each and ldd bytes apart, to sum.")
	sum, d, ldd, n := GP64(), GP64(), GP64(), GP64()
	Load(Param("sum"), sum)
	Load(Param("d"), d)
	Load(Param("ldd"), ldd)
	Load(Param("n"), n)
	strip := func(name string, vectors int, m *mask) {
		rows, at := GP64(), GP64()
		Load(Param("rows"), rows)
		MOVQ(d, at)
		s := make([]reg.VecVirtual, vectors)
		for j := range s {
			s[j] = v.vec()
			v.load(Mem{Base: sum, Disp: j * v.bytes()}, m, s[j])
		}
		Label(name)
		for j := range s {
			x := v.vec()
			v.load(Mem{Base: at, Disp: j * v.bytes()}, m, x)
			VADDPS(x, s[j], s[j])
		}
		ADDQ(ldd, at)
		DECQ(rows)
		JNE(LabelRef(name))
		for j := range s {
			v.store(s[j], m, Mem{Base: sum, Disp: j * v.bytes()})
		}
		ADDQ(U32(uint32(vectors*v.bytes())), sum)
		ADDQ(U32(uint32(vectors*v.bytes())), d)
	}
	for _, vectors := range []int{4, 1} {
		name := map[int]string{4: "four", 1: "one"}[vectors]
		Label(name)
		CMPQ(n, U32(uint32(vectors*v.lanes)))
		JL(LabelRef(name + "end"))
		strip(name+"rows", vectors, nil)
		SUBQ(U32(uint32(vectors*v.lanes)), n)
		JMP(LabelRef(name))
		Label(name + "end")
	}
	TESTQ(n, n)
	JEQ(LabelRef("end"))
	strip("tailrows", 1, v.mask(n))
	Label("end")
	v.end()
}
