package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// An isa has the instructions that differ between AVX-512, with masks in registers of their own, and AVX2, with masks
// in vectors.
type isa interface {
	vector() reg.VecVirtual
	mask() Op
	merge(mask, from Op, to reg.VecVirtual) // from to to, where the mask is set
	add(mask, from Op, to reg.VecVirtual)   // from added to to, where the mask is set
	scale(factor Mem, to reg.VecVirtual)    // to multiplied by one number
}

type avx512 struct{}

func (avx512) vector() reg.VecVirtual                 { return ZMM() }
func (avx512) mask() Op                               { return K() }
func (avx512) merge(mask, from Op, to reg.VecVirtual) { VMOVUPD(from, mask, to) }
func (avx512) add(mask, from Op, to reg.VecVirtual)   { VADDPD(from, to, mask, to) }
func (avx512) scale(factor Mem, to reg.VecVirtual)    { VMULPD_BCST(factor, to, to) }

type avx2 struct{}

func (avx2) vector() reg.VecVirtual                 { return YMM() }
func (avx2) mask() Op                               { return YMM() }
func (avx2) merge(mask, from Op, to reg.VecVirtual) { VBLENDVPD(mask, from, to, to) }

func (i avx2) add(mask, from Op, to reg.VecVirtual) {
	sum := YMM()
	VADDPD(from, to, sum)
	i.merge(mask, sum, to)
}

func (avx2) scale(factor Mem, to reg.VecVirtual) {
	all := YMM()
	VBROADCASTSD(factor, all)
	VMULPD(all, to, to)
}

// A kernel holds what configures share. Its areas, or their parts, are chains of dependent instructions. They are
// independent of each other, so that all together take little longer than the longest.
type kernel struct {
	isa
	areas    []area
	task     [tasks]Op // 8 times its number: the bits before its level, and the lanes before it in a column
	table    reg.GPVirtual
	column   reg.GPVirtual // bytes of a column of table
	count    reg.GPVirtual // of columns, of an area of any window
	discount reg.GPVirtual
	left     reg.GPVirtual // increments
	stride   reg.GPVirtual // levels of a lane in table
	last     reg.GPVirtual
}

// configure begins a function that hands out increments for several windows, with vectors of a size in bytes.
func configure(name string, i isa, size int, windows []int) kernel {
	TEXT(name, NOSPLIT, "func(state *float64, discount *float64, table *float64, stride, last, window, increments int)")
	Pragma("noescape")
	Doc(name + " hands out increments in eight lanes, for an area of the state for each of its windows.")
	k := kernel{isa: i, table: GP64(), column: GP64(), count: GP64()}
	state := GP64()
	k.discount, k.left, k.stride, k.last = GP64(), GP64(), GP64(), GP64()
	Load(Param("state"), state)
	Load(Param("discount"), k.discount)
	Load(Param("table"), k.table)
	Load(Param("stride"), k.stride)
	Load(Param("last"), k.last)
	Load(Param("window"), k.count)
	Load(Param("increments"), k.left)
	offset := 0
	for _, w := range windows {
		for part := 0; part < vector; part += size {
			k.areas = append(k.areas, area{w, Mem{Base: state, Disp: offset + part}})
		}
		offset += columns + w*columnSize
	}
	return k
}

// handOut ends the function: it rescans all columns, and gives an increment as long as there is one.
func (k *kernel) handOut(give func()) {
	Label("increment")
	for _, a := range k.areas {
		k.each(a, func(at Mem, j int, p reg.GPVirtual) {
			if p == nil {
				k.rescan(at, Mem{Base: k.discount, Disp: 8 * j})
			} else {
				k.rescan(at, Mem{Base: p})
			}
		}, k.discount)
	}
	TESTQ(k.left, k.left)
	JZ(LabelRef("end"))
	DECQ(k.left)
	give()
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
		b, above := best{k.vector(), k.vector(), k.vector()}, k.mask()
		other := at.Offset((i + 1) * cell)
		VMOVUPD(at.Offset(i*cell), b.now)
		VMOVUPD(at.Offset(i*cell+vector), b.next)
		VCMPPD(less, other, b.now, above)
		k.merge(above, other.Offset(vector), b.next)
		VMOVUPD(k.task[i], b.task)
		k.merge(above, k.task[i+1], b.task)
		VMAXPD(other, b.now, b.now)
		return b
	}
	better := func(a, b best) best {
		above := k.mask()
		VCMPPD(less, b.now, a.now, above)
		k.merge(above, b.next, a.next)
		k.merge(above, b.task, a.task)
		VMAXPD(b.now, a.now, a.now)
		return a
	}
	first := better(pair(0), pair(2))
	b := better(first, better(pair(4), pair(6)))
	VMOVUPD(b.now, at.Offset(slowest))
	VMOVUPD(b.task, at.Offset(bottleneck))
	VSUBPD(b.next, b.now, b.next)
	k.scale(discount, b.next)
	VMOVUPD(b.next, at.Offset(gain))
}

// choose returns the task with the largest sum of gains in each lane, the first of equal ones.
func (k *kernel) choose(a area) reg.VecVirtual {
	chosen := k.vector()
	VMOVUPD(a.column(0).Offset(bottleneck), chosen)
	switch a.window {
	case 1:
	case 2: // the larger gain decides, whether the tasks are the same or not
		g, above := k.vector(), k.mask()
		VMOVUPD(a.column(0).Offset(gain), g)
		VCMPPD(less, a.column(1).Offset(gain), g, above)
		k.merge(above, a.column(1).Offset(bottleneck), chosen)
	default:
		most, _ := k.sum(a, a.column(0))
		k.each(a, func(at Mem, _ int, _ reg.GPVirtual) {
			s, t := k.sum(a, at)
			above := k.mask()
			VCMPPD(less, s, most, above)
			k.merge(above, t, chosen)
			VMAXPD(s, most, most)
		}, nil)
	}
	return chosen
}

// sum returns the slowest task of a column and the sum of that task's gains.
func (k *kernel) sum(a area, at Mem) (s, task reg.VecVirtual) {
	s, task = k.vector(), k.vector()
	VMOVUPD(k.task[0], s) // 0
	VMOVUPD(at.Offset(bottleneck), task)
	k.each(a, func(of Mem, _ int, _ reg.GPVirtual) {
		same := k.mask()
		VPCMPEQQ(of.Offset(bottleneck), task, same)
		k.add(same, of.Offset(gain), s)
	}, nil)
	return s, task
}
