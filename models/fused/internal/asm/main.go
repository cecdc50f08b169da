// Command asm generates the kernels of package fused for AVX2 and AVX-512.
//
// The same code generates both, with different vector lengths, so that they compute the same
// formulas in the same order. Vectors that would reach beyond the last column or element are loaded
// and stored with masks.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego") // file names imply amd64
	for _, v := range []*isa{{name: "avx2", lanes: 8}, {name: "avx512", lanes: 16, wide: true}} {
		v.gemms()
		v.tanh()
		v.tanhGrad()
		v.relu()
		v.reluGrad()
		v.sumRows()
		v.add()
		v.addScaled()
		v.maxRows()
		v.normalize()
		v.normalizeGrad()
	}
	transpose()
	Generate()
}

// isa is an instruction set to generate for.
type isa struct {
	name  string
	lanes int // float32 in a vector
	wide  bool
}

func (v *isa) bytes() int { return 4 * v.lanes }

// function begins a function without a frame; args is its signature in the stubs.
func (v *isa) function(name, args, doc string) {
	TEXT(name+v.suffix(), NOSPLIT, "func("+args+")")
	Pragma("noescape")
	Doc(name + v.suffix() + " " + doc)
}

func (v *isa) suffix() string {
	if v.wide {
		return "AVX512"
	}
	return "AVX2"
}

// align starts a loop of AVX2 at a cache line, so that it takes as few entries of the cache of decoded instructions as it can.
func (v *isa) align() {
	if !v.wide {
		Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []Op{U32(64)}})
	}
}

func (v *isa) end() {
	VZEROUPPER()
	RET()
}

func (v *isa) vec() reg.VecVirtual {
	if v.wide {
		return ZMM()
	}
	return YMM()
}

// vecs returns n vectors.
func (v *isa) vecs(n int) []reg.VecVirtual {
	vs := make([]reg.VecVirtual, n)
	for i := range vs {
		vs[i] = v.vec()
	}
	return vs
}

// A mask selects the first lanes of a vector; a nil one selects all.
type mask struct {
	k reg.OpmaskVirtual // AVX-512
	y reg.VecVirtual    // AVX2: the sign bits of selected lanes are set
}

// mask returns the mask of the first n lanes, 1 to all. It overwrites n.
func (v *isa) mask(n reg.GPVirtual) *mask {
	if v.wide {
		m, all := &mask{k: K()}, GP64()
		MOVQ(I32(-1), all)
		BZHIQ(n, all, n)
		KMOVW(n.As32(), m.k)
		return m
	}
	m := &mask{y: YMM()}
	table := laneTable()
	base := GP64()
	LEAQ(table, base)
	NEGQ(n)
	VMOVDQU(Mem{Base: base, Index: n, Scale: 4, Disp: 32}, m.y)
	return m
}

var lanes *Mem

// laneTable holds eight selected and eight other lanes, from which AVX2 masks are loaded.
func laneTable() Mem {
	if lanes == nil {
		m := GLOBL("lanes", RODATA|NOPTR)
		for i := range 16 {
			x := uint32(0)
			if i < 8 {
				x = 1<<32 - 1
			}
			DATA(4*i, U32(x))
		}
		lanes = &m
	}
	return *lanes
}

// load reads a vector; lanes that are not selected become 0 and their memory is not read.
func (v *isa) load(src Mem, m *mask, dst reg.VecVirtual) {
	switch {
	case m == nil:
		VMOVUPS(src, dst)
	case v.wide:
		VMOVUPS_Z(src, m.k, dst)
	default:
		VMASKMOVPS(src, m.y, dst)
	}
}

// store writes the selected lanes.
func (v *isa) store(src reg.VecVirtual, m *mask, dst Mem) {
	switch {
	case m == nil:
		VMOVUPS(src, dst)
	case v.wide:
		VMOVUPS(src, m.k, dst)
	default:
		VMASKMOVPS(src, m.y, dst)
	}
}

var constants = map[string]Mem{}

// constant returns a float32 in memory.
func constant(x float32) Mem {
	return integer(bits(x)) // F32 writes 1 as an integer
}

// integer returns a uint32 in memory.
func integer(x uint32) Mem {
	name := fmt.Sprintf("f%08x", x)
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	DATA(0, U32(x))
	constants[name] = m
	return m
}
