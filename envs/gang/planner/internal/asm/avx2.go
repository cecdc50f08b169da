package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const half = vector / 2 // bytes of four lanes

// kernelAVX2 holds what the chains of a configure share. A chain is half of the lanes of an area. Chains are independent,
// so that instructions of one fill the latencies of the others.
type kernelAVX2 struct {
	chains []area // at the first of its four lanes
	table  reg.GPVirtual
	column reg.GPVirtual // bytes of a column of table
	stride reg.GPVirtual // bytes of a lane of a task in it
	last   reg.GPVirtual
	count  reg.GPVirtual // of columns, of an area of any window
	task   Mem           // for each task a vector of 8 times its number
}

// configureHalves is configure with AVX2. An increment moves the cells of each lane by scalar instructions, in place of a
// gather and of blends in the cells of all tasks.
func configureHalves(name string, windows ...int) {
	TEXT(name, NOSPLIT, "func(state *float64, discount *float64, table *float64, stride, last, window, increments int)")
	Pragma("noescape")
	Doc(name + " hands out increments in eight lanes, for an area of the state for each of its windows.")
	k := kernelAVX2{table: GP64(), column: GP64(), stride: GP64(), last: GP64(), count: GP64()}
	state, discount, left := GP64(), GP64(), GP64()
	Load(Param("state"), state)
	Load(Param("discount"), discount)
	Load(Param("table"), k.table)
	Load(Param("stride"), k.stride)
	Load(Param("last"), k.last)
	Load(Param("window"), k.count)
	Load(Param("increments"), left)
	SHLQ(U8(3), k.stride)
	MOVQ(k.stride, k.column)
	SHLQ(U8(6), k.column) // lanes and tasks
	k.task = GLOBL("tasks"+name, RODATA|NOPTR)
	for i := range tasks * half / 8 {
		DATA(8*i, U64(i/(half/8)*8))
	}
	offset := 0
	for _, w := range windows {
		for h := range 2 {
			k.chains = append(k.chains, area{w, Mem{Base: state, Disp: offset + h*half}})
		}
		offset += columns + w*columnSize
	}

	Label("increment")
	for _, a := range k.chains {
		k.each(a, func(at Mem, j int, p reg.GPVirtual) {
			if p == nil {
				k.rescan(at, Mem{Base: discount, Disp: 8 * j})
			} else {
				k.rescan(at, Mem{Base: p})
			}
		}, discount)
	}
	TESTQ(left, left)
	JZ(LabelRef("end"))
	DECQ(left)
	for i, a := range k.chains {
		k.give(a, k.choose(a), i%2*half/8)
	}
	JMP(LabelRef("increment"))
	Label("end")
	VZEROUPPER()
	RET()
}

// each is that of kernel.
func (k *kernelAVX2) each(a area, f func(at Mem, j int, p reg.GPVirtual), walk reg.GPVirtual) {
	(&kernel{table: k.table, column: k.column, count: k.count}).each(a, f, walk)
}

// blend sets to to from where a mask is set.
func blend(mask, from Op, to reg.VecVirtual) { VBLENDVPD(mask, from, to, to) }

// rescan is that of kernel.
func (k *kernelAVX2) rescan(at, discount Mem) {
	type best struct{ now, next, task reg.VecVirtual }
	pair := func(i int) best {
		b, above := best{YMM(), YMM(), YMM()}, YMM()
		other := at.Offset((i + 1) * cell)
		VMOVUPD(at.Offset(i*cell), b.now)
		VMOVUPD(at.Offset(i*cell+vector), b.next)
		VCMPPD(less, other, b.now, above)
		blend(above, other.Offset(vector), b.next)
		VMOVUPD(k.task.Offset(i*half), b.task)
		blend(above, k.task.Offset((i+1)*half), b.task)
		VMAXPD(other, b.now, b.now)
		return b
	}
	better := func(a, b best) best {
		above := YMM()
		VCMPPD(less, b.now, a.now, above)
		blend(above, b.next, a.next)
		blend(above, b.task, a.task)
		VMAXPD(b.now, a.now, a.now)
		return a
	}
	first := better(pair(0), pair(2))
	b := better(first, better(pair(4), pair(6)))
	VMOVUPD(b.now, at.Offset(slowest))
	VMOVUPD(b.task, at.Offset(bottleneck))
	VSUBPD(b.next, b.now, b.next)
	factor := YMM()
	VBROADCASTSD(discount, factor)
	VMULPD(factor, b.next, b.next)
	VMOVUPD(b.next, at.Offset(gain))
}

// choose is that of kernel.
func (k *kernelAVX2) choose(a area) reg.VecVirtual {
	chosen := YMM()
	VMOVUPD(a.column(0).Offset(bottleneck), chosen)
	switch a.window {
	case 1:
	case 2:
		g := YMM()
		VMOVUPD(a.column(0).Offset(gain), g)
		VCMPPD(less, a.column(1).Offset(gain), g, g)
		blend(g, a.column(1).Offset(bottleneck), chosen)
	default:
		most, _ := k.sum(a, a.column(0))
		k.each(a, func(at Mem, _ int, _ reg.GPVirtual) {
			s, t := k.sum(a, at)
			above := YMM()
			VCMPPD(less, s, most, above)
			blend(above, t, chosen)
			VMAXPD(s, most, most)
		}, nil)
	}
	return chosen
}

// sum is that of kernel.
func (k *kernelAVX2) sum(a area, at Mem) (s, task reg.VecVirtual) {
	s, task = YMM(), YMM()
	VXORPD(s, s, s)
	VMOVUPD(at.Offset(bottleneck), task)
	k.each(a, func(of Mem, _ int, _ reg.GPVirtual) {
		same, more := YMM(), YMM()
		VPCMPEQQ(of.Offset(bottleneck), task, same)
		VADDPD(of.Offset(gain), s, more)
		blend(same, more, s)
	}, nil)
	return s, task
}

// give adds an increment to the chosen task of each lane, and moves its cells to their level in all columns. first is
// the chain's first lane.
func (k *kernelAVX2) give(a area, chosen reg.VecVirtual, first int) {
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

func (k *kernelAVX2) giveLane(a area, task reg.GPVirtual, first, lane int) {
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
