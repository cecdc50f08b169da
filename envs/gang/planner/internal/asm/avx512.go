package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernel512 holds the registers of a configure with AVX-512.
type kernel512 struct {
	kernel
	all     reg.GPVirtual // mask of all lanes
	one     reg.VecVirtual
	byte    reg.VecVirtual
	strides reg.VecVirtual
	base    reg.VecVirtual
	lasts   reg.VecVirtual
}

// configure512 generates the resource configuration algorithm for several windows at once.
func configure512(name string, windows ...int) {
	k := kernel512{kernel: configure(name, avx512{}, vector, windows)}
	k.all = GP32()
	MOVL(U32(0xff), k.all)
	k.lasts, k.base, k.one = ZMM(), ZMM(), ZMM()
	VPBROADCASTQ(k.last, k.lasts)
	MOVQ(U32(1), k.last)
	VPBROADCASTQ(k.last, k.one)
	MOVQ(U32(0xff), k.last)
	k.byte, k.strides = ZMM(), ZMM()
	VPBROADCASTQ(k.last, k.byte)
	VPBROADCASTQ(k.stride, k.strides)
	lanes := GLOBL("lanes"+name, RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(i))
	}
	VMOVDQU64(lanes, k.base)
	VPMULLQ(k.strides, k.base, k.base)
	MOVQ(k.stride, k.column)
	SHLQ(U8(9), k.column) // lanes, tasks and bytes
	eight := ZMM()
	MOVQ(U32(tasks), k.last)
	VPBROADCASTQ(k.last, eight)
	for i := range k.task {
		k.task[i] = ZMM()
		if i == 0 {
			VPXORQ(k.task[0], k.task[0], k.task[0])
		} else {
			VPADDQ(eight, k.task[i-1], k.task[i])
		}
	}

	k.handOut(func() {
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
	})
}

// choose returns the task with the largest sum of gains in each lane.
func (k *kernel512) choose(a area) reg.VecVirtual {
	if a.window != 3 {
		return k.kernel.choose(a)
	}
	chosen := ZMM()
	VMOVDQU64(a.column(0).Offset(bottleneck), chosen)
	k.chooseOf3(a, chosen)
	return chosen
}

// chooseOf3 is choose for three columns: three comparisons of tasks give all sums.
func (k *kernel512) chooseOf3(a area, chosen reg.VecVirtual) {
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
func (k *kernel512) give(a area, chosen reg.VecVirtual) reg.VecVirtual {
	all, level, one := ZMM(), ZMM(), ZMM()
	VMOVDQU64(a.at, all)
	VPSLLVQ(chosen, k.one, one)
	VPADDQ(one, all, all)
	VMOVDQU64(all, a.at)
	VPSRLVQ(chosen, all, level)
	VPANDQ(k.byte, level, level)
	VPADDQ(k.one, level, level)
	VPMINSQ(k.lasts, level, level)
	VPADDQ(k.base, level, level)
	offset := ZMM()
	VPMULLQ(k.strides, chosen, offset)
	VPADDQ(offset, level, level)
	return level
}

// move updates the chosen tasks to their level in all columns.
func (k *kernel512) move(a area, chosen, index reg.VecVirtual) {
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
