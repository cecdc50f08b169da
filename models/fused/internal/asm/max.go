package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maxRows generates a loop over columns of vectors. A vector's lanes count the rows.
func (v *isa) maxRows() {
	v.function("maxRows", "max *float32, row *int32, x *float32, rows, n int",
		"sets max to the maximum over rows of x, n elements each, and row to the first row that has it. A NaN is greater than all.")
	max, row, x, n, ldx := GP64(), GP64(), GP64(), GP64(), GP64()
	Load(Param("max"), max)
	Load(Param("row"), row)
	Load(Param("x"), x)
	Load(Param("n"), n)
	MOVQ(n, ldx)
	SHLQ(U8(2), ldx)
	one := v.vec()
	VPBROADCASTD(integer(1), one)
	Label("vectors")
	CMPQ(n, U32(uint32(v.lanes)))
	JL(LabelRef("tail"))
	v.maxStrip("rows", max, row, x, ldx, one, nil)
	for _, p := range []reg.GPVirtual{max, row, x} {
		ADDQ(U32(uint32(v.bytes())), p)
	}
	SUBQ(U32(uint32(v.lanes)), n)
	JMP(LabelRef("vectors"))
	Label("tail")
	TESTQ(n, n)
	JEQ(LabelRef("end"))
	v.maxStrip("tailrows", max, row, x, ldx, one, v.mask(n))
	Label("end")
	v.end()
}

// maxStrip generates the loop over the rows of one vector of columns.
func (v *isa) maxStrip(name string, max, row, x, ldx reg.GPVirtual, one reg.VecVirtual, m *mask) {
	const (
		greater   = 0x1e // GT_OQ
		unordered = 0x03 // UNORD_Q
		ordered   = 0x07 // ORD_Q
	)
	left, at := GP64(), GP64()
	Load(Param("rows"), left)
	MOVQ(x, at)
	best, first, number := v.vec(), v.vec(), v.vec()
	v.load(Mem{Base: at}, m, best)
	VXORPS(first, first, first)
	VXORPS(number, number, number)
	Label(name)
	DECQ(left)
	JEQ(LabelRef(name + "end"))
	ADDQ(ldx, at)
	VPADDD(one, number, number)
	next := v.vec()
	v.load(Mem{Base: at}, m, next)
	if v.wide {
		more, nan, valid := K(), K(), K()
		VCMPPS(U8(greater), best, next, more)
		VCMPPS(U8(unordered), next, next, nan)
		VCMPPS(U8(ordered), best, best, valid)
		KANDW(nan, valid, nan)
		KORW(nan, more, more)
		VMOVAPS(next, more, best)
		VMOVAPS(number, more, first)
	} else {
		more, nan, valid := v.vec(), v.vec(), v.vec()
		VCMPPS(U8(greater), best, next, more)
		VCMPPS(U8(unordered), next, next, nan)
		VCMPPS(U8(ordered), best, best, valid)
		VANDPS(nan, valid, nan)
		VORPS(nan, more, more)
		VBLENDVPS(more, next, best, best)
		VBLENDVPS(more, number, first, first)
	}
	JMP(LabelRef(name))
	Label(name + "end")
	v.store(best, m, Mem{Base: max})
	v.store(first, m, Mem{Base: row})
}
