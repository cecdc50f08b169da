// Command asm generates the kernels of package planner, with AVX-512 and with AVX2. Each lane is a step of the trace and
// performs the operations of Allocator.Configure in their order, so that the bits are equal.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	tasks  = 8
	vector = 64 // bytes
	cell   = 2 * vector
)

func main() {
	ConstraintExpr("!purego") // the names of the files contain amd64
	tabulate("tabulateAVX512", vector, ZMM)
	tabulate("tabulateAVX2", half, YMM)
	configure512("configureAVX512", 0)
	configure512("configure1AVX512", 1)
	configure512("configure123AVX512", 1, 2, 3)
	configure256("configureAVX2", 0)
	configure256("configure1AVX2", 1)
	configure256("configure123AVX2", 1, 2, 3)
	Generate()
}

// tabulate generates the evaluation of cubics in one u, with registers of a size in bytes.
func tabulate(name string, size int, register func() reg.VecVirtual) {
	TEXT(name, NOSPLIT, "func(dst, coef *float64, stride int, u float64)")
	Pragma("noescape")
	Doc(name+" sets stride elements of dst, whole vectors, to cubics in u. Their coefficients, the constant",
		"first, are four arrays of that length.")
	dst, c0, n := GP64(), GP64(), GP64()
	Load(Param("dst"), dst)
	Load(Param("coef"), c0)
	Load(Param("stride"), n)
	scalar, u := XMM(), register()
	Load(Param("u"), scalar)
	VBROADCASTSD(scalar, u)
	bytes, c1 := GP64(), GP64()
	MOVQ(n, bytes)
	SHLQ(U8(3), bytes)
	LEAQ(Mem{Base: c0, Index: bytes, Scale: 1}, c1)
	c3 := GP64()
	LEAQ(Mem{Base: c1, Index: bytes, Scale: 2}, c3)
	Label("vectors")
	v := register()
	VMULPD(Mem{Base: c3}, u, v)
	VADDPD(Mem{Base: c1, Index: bytes, Scale: 1}, v, v)
	VMULPD(u, v, v)
	VADDPD(Mem{Base: c1}, v, v)
	VMULPD(u, v, v)
	VADDPD(Mem{Base: c0}, v, v)
	VMOVUPD(v, Mem{Base: dst})
	for _, p := range []reg.GPVirtual{dst, c0, c1, c3} {
		ADDQ(U8(size), p)
	}
	SUBQ(U8(size/8), n)
	JNZ(LabelRef("vectors"))
	VZEROUPPER()
	RET()
}

// An area is the part of the state for one window.
type area struct {
	window int // 0 is that of a parameter
	at     Mem
}

// Parts of an area, after the levels of all tasks: a byte of the lane for each.
const (
	columns    = vector              // of each column: cells, and then
	slowest    = tasks * cell        // its duration,
	bottleneck = slowest + vector    // slowest task
	gain       = bottleneck + vector // and gain
	columnSize = gain + vector
)

func (a area) column(j int) Mem { return a.at.Offset(columns + j*columnSize) }
