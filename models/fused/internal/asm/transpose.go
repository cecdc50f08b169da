package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose generates the transposition of a row of blocks of 8×8. AVX-512 would gain little, so
// both instruction sets share it.
func transpose() {
	TEXT("transpose8", NOSPLIT, "func(dst *float32, lddst int, src *float32, ldsrc, blocks int)")
	Pragma("noescape")
	Doc("transpose8 transposes that many blocks of 8×8: those of src lie side by side, those of dst one below another. Strides are in bytes.")
	dst, lddst, src, ldsrc, blocks := GP64(), GP64(), GP64(), GP64(), GP64()
	Load(Param("dst"), dst)
	Load(Param("lddst"), lddst)
	Load(Param("src"), src)
	Load(Param("ldsrc"), ldsrc)
	Load(Param("blocks"), blocks)
	Label("block")
	rows := make([]reg.VecVirtual, 8)
	at := GP64()
	MOVQ(src, at)
	for i := range rows {
		rows[i] = YMM()
		VMOVUPS(Mem{Base: at}, rows[i])
		ADDQ(ldsrc, at)
	}
	for _, row := range transposed(rows) {
		VMOVUPS(row, Mem{Base: dst})
		ADDQ(lddst, dst)
	}
	ADDQ(U32(32), src)
	DECQ(blocks)
	JNE(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// transposed returns the columns of eight rows. Names give the rows and columns of a half:
// each step makes runs twice as long.
func transposed(r []reg.VecVirtual) []reg.VecVirtual {
	pairs := make([]reg.VecVirtual, 8) // a0 b0 a1 b1 and a2 b2 a3 b3 of each two rows a, b
	for i := 0; i < 8; i += 2 {
		pairs[i], pairs[i+1] = YMM(), YMM()
		VUNPCKLPS(r[i+1], r[i], pairs[i])
		VUNPCKHPS(r[i+1], r[i], pairs[i+1])
	}
	quads := make([]reg.VecVirtual, 8) // of rows 0 to 3, then 4 to 7: columns 0 and 4, 1 and 5, ...
	for i := 0; i < 8; i += 4 {
		for j := range 2 {
			low, high := YMM(), YMM()
			VSHUFPS(U8(0x44), pairs[i+2+j], pairs[i+j], low)
			VSHUFPS(U8(0xee), pairs[i+2+j], pairs[i+j], high)
			quads[i+2*j], quads[i+2*j+1] = low, high
		}
	}
	columns := make([]reg.VecVirtual, 8)
	for j := range 4 {
		columns[j], columns[j+4] = YMM(), YMM()
		VPERM2F128(U8(0x20), quads[j+4], quads[j], columns[j])
		VPERM2F128(U8(0x31), quads[j+4], quads[j], columns[j+4])
	}
	return columns
}
