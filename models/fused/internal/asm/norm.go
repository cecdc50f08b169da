package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A block is 16 elements: one vector of AVX-512 or two of AVX2, so that both sets sum rows in
// the same 16 lanes.
type block []reg.VecVirtual

func (v *isa) block() block {
	if v.wide {
		return block{v.vec()}
	}
	return block{v.vec(), v.vec()}
}

func (v *isa) zeroBlock() block {
	b := v.block()
	for _, r := range b {
		VXORPS(r, r, r)
	}
	return b
}

// broadcast returns a vector of an argument.
func (v *isa) broadcast(param string) reg.VecVirtual {
	x, r := XMM(), v.vec()
	Load(Param(param), x)
	VBROADCASTSS(x, r)
	return r
}

// blockMask returns the masks of the first n elements of a block, n from 1 to 15. It
// overwrites n.
func (v *isa) blockMask(n reg.GPVirtual) []*mask {
	if v.wide {
		return []*mask{v.mask(n)}
	}
	low, high, zero := GP64(), GP64(), GP64()
	eight := GP64()
	MOVQ(I32(8), eight)
	XORQ(zero, zero)
	MOVQ(n, low)
	CMPQ(low, eight)
	CMOVQGT(eight, low)
	MOVQ(n, high)
	SUBQ(U8(8), high)
	CMOVQLT(zero, high)
	return []*mask{v.mask(low), v.mask(high)}
}

// rowPass generates a pass over the n elements of a row: body gets the index of a vector in
// a block, where arrays hold it, and its mask.
func (v *isa) rowPass(name string, n reg.GPVirtual, arrays []reg.GPVirtual, body func(i int, p []Mem, m *mask)) {
	left := GP64()
	MOVQ(n, left)
	at := make([]reg.GPVirtual, len(arrays))
	for i, a := range arrays {
		at[i] = GP64()
		MOVQ(a, at[i])
	}
	do := func(masks []*mask) {
		for i := range 16 / v.lanes {
			p := make([]Mem, len(at))
			for k, a := range at {
				p[k] = Mem{Base: a, Disp: i * v.bytes()}
			}
			var m *mask
			if masks != nil {
				m = masks[i]
			}
			body(i, p, m)
		}
	}
	Label(name)
	CMPQ(left, U32(16))
	JL(LabelRef(name + "tail"))
	do(nil)
	for _, a := range at {
		ADDQ(U32(64), a)
	}
	SUBQ(U32(16), left)
	JMP(LabelRef(name))
	Label(name + "tail")
	TESTQ(left, left)
	JEQ(LabelRef(name + "end"))
	do(v.blockMask(left))
	Label(name + "end")
}

// reduce adds up the lanes of a block, and returns the sum in all lanes of a vector.
func (v *isa) reduce(b block) reg.VecVirtual {
	half := YMM()
	if v.wide {
		VEXTRACTF32X8(U8(1), b[0], half)
		VADDPS(b[0].AsY(), half, half)
	} else {
		VADDPS(b[0], b[1], half)
	}
	quarter, x := XMM(), XMM()
	VEXTRACTF128(U8(1), half, quarter)
	VADDPS(half.AsX(), quarter, quarter)
	VSHUFPS(U8(0x4e), quarter, quarter, x)
	VADDPS(x, quarter, quarter)
	VSHUFPS(U8(0xb1), quarter, quarter, x)
	VADDPS(x, quarter, quarter)
	all := v.vec()
	VBROADCASTSS(quarter, all)
	return all
}

// keep sets lanes that are not selected to 0.
func (v *isa) keep(m *mask, x reg.VecVirtual) {
	switch {
	case m == nil:
	case v.wide:
		VMOVAPS_Z(x, m.k, x)
	default:
		VANDPS(m.y, x, x)
	}
}

func (v *isa) normalize() {
	v.function("normalize", "y, xhat, gamma, beta, inverse *float32, n int, scale, eps float32",
		"sets xhat to (y-mean)·inverse and y to xhat·gamma+beta, where inverse is 1/√(variance+eps) and scale 1/n.")
	y, xhat, gamma, beta, n := GP64(), GP64(), GP64(), GP64(), GP64()
	Load(Param("y"), y)
	Load(Param("xhat"), xhat)
	Load(Param("gamma"), gamma)
	Load(Param("beta"), beta)
	Load(Param("n"), n)
	scale := v.broadcast("scale")
	sums := v.zeroBlock()
	v.rowPass("mean", n, []reg.GPVirtual{y}, func(i int, p []Mem, m *mask) {
		x := v.vec()
		v.load(p[0], m, x)
		VADDPS(x, sums[i], sums[i])
	})
	mean := v.reduce(sums)
	VMULPS(scale, mean, mean)
	squares := v.zeroBlock()
	v.rowPass("variance", n, []reg.GPVirtual{y, xhat}, func(i int, p []Mem, m *mask) {
		x := v.vec()
		v.load(p[0], m, x)
		VSUBPS(mean, x, x)
		v.keep(m, x)
		VFMADD231PS(x, x, squares[i])
		v.store(x, m, p[1])
	})
	inverse := v.reduce(squares)
	VMULPS(scale, inverse, inverse)
	VADDPS(v.broadcast("eps"), inverse, inverse)
	VSQRTPS(inverse, inverse)
	one := v.vec()
	VBROADCASTSS(constant(1), one)
	VDIVPS(inverse, one, inverse)
	to := GP64()
	Load(Param("inverse"), to)
	VMOVSS(inverse.AsX(), Mem{Base: to})
	v.rowPass("affine", n, []reg.GPVirtual{y, xhat, gamma, beta}, func(i int, p []Mem, m *mask) {
		x, g, b := v.vec(), v.vec(), v.vec()
		v.load(p[1], m, x)
		VMULPS(inverse, x, x)
		v.store(x, m, p[1])
		v.load(p[2], m, g)
		v.load(p[3], m, b)
		VFMADD231PS(x, g, b)
		v.store(b, m, p[0])
	})
	v.end()
}

func (v *isa) normalizeGrad() {
	v.function("normalizeGrad", "d, xhat, gamma, weight *float32, n int, scale, inverse float32",
		"adds d·xhat to weight and replaces d by inverse·(g-mean(g)-xhat·mean(g·xhat)), where g is d·gamma and scale 1/n.")
	d, xhat, gamma, weight, n := GP64(), GP64(), GP64(), GP64(), GP64()
	Load(Param("d"), d)
	Load(Param("xhat"), xhat)
	Load(Param("gamma"), gamma)
	Load(Param("weight"), weight)
	Load(Param("n"), n)
	sums, products := v.zeroBlock(), v.zeroBlock()
	v.rowPass("sums", n, []reg.GPVirtual{d, xhat, gamma, weight}, func(i int, p []Mem, m *mask) {
		g, x, t := v.vec(), v.vec(), v.vec()
		v.load(p[0], m, g)
		v.load(p[1], m, x)
		v.load(p[3], m, t)
		VFMADD231PS(g, x, t)
		v.store(t, m, p[3])
		v.load(p[2], m, t)
		VMULPS(t, g, g)
		VADDPS(g, sums[i], sums[i])
		VFMADD231PS(g, x, products[i])
		v.store(g, m, p[0])
	})
	scale := v.broadcast("scale")
	mean, slope := v.reduce(sums), v.reduce(products)
	VMULPS(scale, mean, mean)
	VMULPS(scale, slope, slope)
	inverse := v.broadcast("inverse")
	v.rowPass("input", n, []reg.GPVirtual{d, xhat}, func(i int, p []Mem, m *mask) {
		g, x := v.vec(), v.vec()
		v.load(p[0], m, g)
		v.load(p[1], m, x)
		VSUBPS(mean, g, g)
		VFNMADD231PS(x, slope, g)
		VMULPS(inverse, g, g)
		v.store(g, m, p[0])
	})
	v.end()
}
