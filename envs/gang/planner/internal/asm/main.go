// Command asm generates the kernels of package planner, with AVX-512 and with AVX2. Each lane is a step of the trace and
// performs the operations of Allocator.Configure in their order, so that the bits are equal.
package main

import (
	"fmt"

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
	configure("configureAVX512", 0)
	configure("configure1AVX512", 1)
	configure("configure123AVX512", 1, 2, 3)
	configureHalves("configureAVX2", 0)
	configureHalves("configure1AVX2", 1)
	configureHalves("configure123AVX2", 1, 2, 3)
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

// kernel holds the registers of a configure.
type kernel struct {
	areas  []area
	table  reg.GPVirtual
	column reg.GPVirtual         // bytes of a column of table
	count  reg.GPVirtual         // of columns, of an area of any window
	task   [tasks]reg.VecVirtual // 8 times its number: the bits before its level, and the lanes before it in a column
	all    reg.GPVirtual         // mask of all lanes
	one    reg.VecVirtual
	byte   reg.VecVirtual
	stride reg.VecVirtual
	base   reg.VecVirtual
	last   reg.VecVirtual
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

// configure generates the resource configuration algorithm for several windows at once. Each window is a chain of
// dependent instructions, so that all together take little longer than the longest.
func configure(name string, windows ...int) {
	TEXT(name, NOSPLIT, "func(state *float64, discount *float64, table *float64, stride, last, window, increments int)")
	Pragma("noescape")
	Doc(name + " hands out increments in eight lanes, for an area of the state for each of its windows.")
	k := kernel{table: GP64(), column: GP64(), count: GP64()}
	state, discount, left, stride, scratch := GP64(), GP64(), GP64(), GP64(), GP64()
	Load(Param("state"), state)
	Load(Param("discount"), discount)
	Load(Param("table"), k.table)
	Load(Param("stride"), stride)
	Load(Param("last"), scratch)
	Load(Param("window"), k.count)
	Load(Param("increments"), left)
	offset := 0
	for _, w := range windows {
		k.areas = append(k.areas, area{w, Mem{Base: state, Disp: offset}})
		offset += columns + w*columnSize
	}

	k.all = GP32()
	MOVL(U32(0xff), k.all)
	k.last, k.base, k.one = ZMM(), ZMM(), ZMM()
	VPBROADCASTQ(scratch, k.last)
	MOVQ(U32(1), scratch)
	VPBROADCASTQ(scratch, k.one)
	MOVQ(U32(0xff), scratch)
	k.byte, k.stride = ZMM(), ZMM()
	VPBROADCASTQ(scratch, k.byte)
	VPBROADCASTQ(stride, k.stride)
	lanes := GLOBL("lanes"+name, RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(i))
	}
	VMOVDQU64(lanes, k.base)
	VPMULLQ(k.stride, k.base, k.base)
	MOVQ(stride, k.column)
	SHLQ(U8(9), k.column) // lanes, tasks and bytes
	eight := ZMM()
	MOVQ(U32(tasks), scratch)
	VPBROADCASTQ(scratch, eight)
	for i := range k.task {
		k.task[i] = ZMM()
		if i == 0 {
			VPXORQ(k.task[0], k.task[0], k.task[0])
		} else {
			VPADDQ(eight, k.task[i-1], k.task[i])
		}
	}

	Label("increment")
	for _, a := range k.areas {
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
	var chosen, index []reg.VecVirtual
	for _, a := range k.areas {
		chosen = append(chosen, k.choose(a))
	}
	for i, a := range k.areas {
		index = append(index, k.give(a, chosen[i]))
	}
	for i, a := range k.areas {
		k.move(a, chosen[i], index[i])
	}
	JMP(LabelRef("increment"))
	Label("end")
	VZEROUPPER()
	RET()
}

var loops int

// each generates f for every column: unrolled, or as a loop in which a copy of walk advances with the columns of the
// table or of the discounts.
func (k *kernel) each(a area, f func(at Mem, j int, p reg.GPVirtual), walk reg.GPVirtual) {
	if a.window > 0 {
		for j := range a.window {
			f(a.column(j), j, nil)
		}
		return
	}
	loops++
	p, n := GP64(), GP64()
	LEAQ(a.column(0), p)
	MOVQ(k.count, n)
	var w reg.GPVirtual
	if walk != nil {
		w = GP64()
		MOVQ(walk, w)
	}
	label := fmt.Sprintf("columns%d", loops)
	Label(label)
	f(Mem{Base: p}, -1, w)
	ADDQ(U32(columnSize), p)
	switch walk {
	case nil:
	case k.table:
		ADDQ(k.column, w)
	default:
		ADDQ(U8(8), w)
	}
	DECQ(n)
	JNZ(LabelRef(label))
}

// less is the predicate a < b of comparisons, false for NaN.
var less = U8(0x11)

// rescan finds the slowest task of a column, the first of equal ones, and its gain, by a tree of comparisons.
func (k *kernel) rescan(at, discount Mem) {
	type best struct{ now, next, task reg.VecVirtual }
	pair := func(i int) best {
		b, above := best{ZMM(), ZMM(), ZMM()}, K()
		other := at.Offset((i + 1) * cell)
		VMOVUPD(at.Offset(i*cell), b.now)
		VMOVUPD(at.Offset(i*cell+vector), b.next)
		VCMPPD(less, other, b.now, above)
		VMOVUPD(other.Offset(vector), above, b.next)
		VMOVDQA64(k.task[i], b.task)
		VMOVDQA64(k.task[i+1], above, b.task)
		VMAXPD(other, b.now, b.now)
		return b
	}
	better := func(a, b best) best {
		above := K()
		VCMPPD(less, b.now, a.now, above)
		VMOVAPD(b.next, above, a.next)
		VMOVDQA64(b.task, above, a.task)
		VMAXPD(b.now, a.now, a.now)
		return a
	}
	first := better(pair(0), pair(2))
	b := better(first, better(pair(4), pair(6)))
	VMOVUPD(b.now, at.Offset(slowest))
	VMOVDQU64(b.task, at.Offset(bottleneck))
	VSUBPD(b.next, b.now, b.next)
	VMULPD_BCST(discount, b.next, b.next)
	VMOVUPD(b.next, at.Offset(gain))
}

// choose returns the task with the largest sum of gains in each lane, the first of equal ones.
func (k *kernel) choose(a area) reg.VecVirtual {
	chosen := ZMM()
	VMOVDQU64(a.column(0).Offset(bottleneck), chosen)
	switch a.window {
	case 1:
	case 2: // the larger gain decides, whether the tasks are the same or not
		g, above := ZMM(), K()
		VMOVUPD(a.column(0).Offset(gain), g)
		VCMPPD(less, a.column(1).Offset(gain), g, above)
		VMOVDQU64(a.column(1).Offset(bottleneck), above, chosen)
	case 3:
		k.chooseOf3(a, chosen)
	default:
		most, _ := k.sum(a, a.column(0))
		k.each(a, func(at Mem, _ int, _ reg.GPVirtual) {
			s, t := k.sum(a, at)
			above := K()
			VCMPPD(less, s, most, above)
			VMOVDQA64(t, above, chosen)
			VMAXPD(s, most, most)
		}, nil)
	}
	return chosen
}

// sum returns the slowest task of a column and the sum of that task's gains.
func (k *kernel) sum(a area, at Mem) (s, task reg.VecVirtual) {
	s, task = ZMM(), ZMM()
	VMOVDQA64(k.task[0], s) // 0
	VMOVDQU64(at.Offset(bottleneck), task)
	k.each(a, func(of Mem, _ int, _ reg.GPVirtual) {
		same := K()
		VPCMPEQQ(of.Offset(bottleneck), task, same)
		VADDPD(of.Offset(gain), s, same, s)
	}, nil)
	return s, task
}

// chooseOf3 is choose for three columns: three comparisons of tasks give all sums.
func (k *kernel) chooseOf3(a area, chosen reg.VecVirtual) {
	var task, g [3]reg.VecVirtual
	for j := range g {
		task[j], g[j] = ZMM(), ZMM()
		VMOVDQU64(a.column(j).Offset(bottleneck), task[j])
		VMOVUPD(a.column(j).Offset(gain), g[j])
	}
	same01, same02, same12 := K(), K(), K()
	VPCMPEQQ(task[1], task[0], same01)
	VPCMPEQQ(task[2], task[0], same02)
	VPCMPEQQ(task[2], task[1], same12)
	s0, s1, s2, above := ZMM(), ZMM(), ZMM(), K()
	VMOVAPD(g[0], s0)
	VADDPD(g[1], s0, same01, s0)
	VADDPD(g[2], s0, same02, s0)
	VMOVAPD_Z(g[0], same01, s1)
	VADDPD(g[1], s1, s1)
	VADDPD(g[2], s1, same12, s1)
	VMOVAPD_Z(g[0], same02, s2)
	VADDPD(g[1], s2, same12, s2)
	VADDPD(g[2], s2, s2)
	VCMPPD(less, s1, s0, above)
	VMOVDQA64(task[1], above, chosen)
	VMAXPD(s1, s0, s0)
	above = K()
	VCMPPD(less, s2, s0, above)
	VMOVDQA64(task[2], above, chosen)
}

// give adds an increment to the chosen task of each lane, and returns where a column of the table has its duration at
// the level above.
func (k *kernel) give(a area, chosen reg.VecVirtual) reg.VecVirtual {
	all, level, one := ZMM(), ZMM(), ZMM()
	VMOVDQU64(a.at, all)
	VPSLLVQ(chosen, k.one, one)
	VPADDQ(one, all, all)
	VMOVDQU64(all, a.at)
	VPSRLVQ(chosen, all, level)
	VPANDQ(k.byte, level, level)
	VPADDQ(k.one, level, level)
	VPMINSQ(k.last, level, level)
	VPADDQ(k.base, level, level)
	offset := ZMM()
	VPMULLQ(k.stride, chosen, offset)
	VPADDQ(offset, level, level)
	return level
}

// move updates the chosen tasks to their level in all columns.
func (k *kernel) move(a area, chosen, index reg.VecVirtual) {
	gather := func(p reg.GPVirtual) reg.VecVirtual {
		all, v := K(), ZMM()
		KMOVW(k.all, all)
		VMOVDQA64(k.task[0], v) // 0
		VGATHERQPD(Mem{Base: p, Index: index, Scale: 8}, all, v)
		return v
	}
	move := func(cell Mem, m reg.OpmaskVirtual, v reg.VecVirtual) {
		now, next := ZMM(), ZMM()
		VMOVUPD(cell, now)
		VMOVUPD(cell.Offset(vector), next)
		VMOVAPD(next, m, now)
		VMOVAPD(v, m, next)
		VMOVUPD(now, cell)
		VMOVUPD(next, cell.Offset(vector))
	}
	if a.window == 0 {
		k.each(a, func(at Mem, _ int, p reg.GPVirtual) {
			v := gather(p)
			for i := range tasks {
				m := K()
				VPCMPEQQ(k.task[i], chosen, m)
				move(at.Offset(i*cell), m, v)
			}
		}, k.table)
		return
	}
	table := GP64()
	MOVQ(k.table, table)
	var fresh []reg.VecVirtual
	for j := range a.window {
		if j > 0 {
			ADDQ(k.column, table)
		}
		fresh = append(fresh, gather(table))
	}
	for i := range tasks {
		m := K()
		VPCMPEQQ(k.task[i], chosen, m)
		for j, v := range fresh {
			move(a.column(j).Offset(i*cell), m, v)
		}
	}
}
