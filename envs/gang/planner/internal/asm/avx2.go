package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const half = vector / 2 // bytes of four lanes

// configure256 is configure512 with AVX2, for halves of areas. An increment moves the cells of each lane by scalar
// instructions, in place of a gather and of masked moves in the cells of all tasks.
func configure256(name string, windows ...int) {
	k := configure(name, avx2{}, half, windows)
	SHLQ(U8(3), k.stride) // bytes from here on
	MOVQ(k.stride, k.column)
	SHLQ(U8(6), k.column) // lanes and tasks
	numbers := GLOBL("tasks"+name, RODATA|NOPTR)
	for i := range tasks * half / 8 {
		DATA(8*i, U64(i/(half/8)*8))
	}
	for i := range k.task {
		k.task[i] = numbers.Offset(i * half)
	}
	k.handOut(func() {
		for i, a := range k.areas {
			k.give(a, k.choose(a), i%2*half/8)
		}
	})
}

// give adds an increment to the chosen task of each lane, and moves its cells to their level in all columns. first is
// the chain's first lane.
func (k *kernel) give(a area, chosen reg.VecVirtual, first int) {
	low, high := chosen.AsX(), XMM()
	VEXTRACTI128(U8(1), chosen, high)
	for lane := range half / 8 {
		task := GP64() // 8 times its number
		x := low
		if lane > 1 {
			x = high
		}
		if lane%2 == 0 {
			VMOVQ(x, task)
		} else {
			VPEXTRQ(U8(1), x, task)
		}
		k.giveLane(a, task, first, lane)
	}
}

func (k *kernel) giveLane(a area, task reg.GPVirtual, first, lane int) {
	number, level, at := GP64(), GP64(), GP64()
	MOVQ(task, number)
	SHRQ(U8(3), number)
	byteOf := Mem{Base: number, Disp: a.at.Disp + 8*lane, Index: a.at.Base, Scale: 1}
	MOVBQZX(byteOf, level)
	INCQ(level)
	MOVB(level.As8(), byteOf)
	INCQ(level)
	CMPQ(level, k.last)
	CMOVQGT(k.last, level)
	LEAQ(Mem{Base: task, Disp: first + lane}, at)
	IMULQ(k.stride, at)
	LEAQ(Mem{Base: at, Index: level, Scale: 8}, at)
	ADDQ(k.table, at)
	SHLQ(U8(4), task) // bytes of cells
	cells := GP64()
	LEAQ(Mem{Base: a.at.Base, Index: task, Scale: 1, Disp: a.at.Disp + columns + 8*lane}, cells)
	move := func(to Mem) {
		now, next := GP64(), GP64()
		MOVQ(to.Offset(vector), now)
		MOVQ(Mem{Base: at}, next)
		MOVQ(now, to)
		MOVQ(next, to.Offset(vector))
	}
	if a.window > 0 {
		for j := range a.window {
			if j > 0 {
				ADDQ(k.column, at)
			}
			move(Mem{Base: cells, Disp: j * columnSize})
		}
		return
	}
	loops++
	label, n := fmt.Sprintf("columns%d", loops), GP64()
	MOVQ(k.count, n)
	Label(label)
	move(Mem{Base: cells})
	ADDQ(k.column, at)
	ADDQ(U32(columnSize), cells)
	DECQ(n)
	JNZ(LabelRef(label))
}
