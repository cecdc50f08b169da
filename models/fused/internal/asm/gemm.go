package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemms generates the matrix products, one for each number of vectors in a strip of columns. With
// AVX-512 the last vector is always masked, which costs nothing.
func (v *isa) gemms() {
	if v.wide {
		for nv := 1; nv <= 4; nv++ {
			v.gemm(nv, true)
		}
		return
	}
	for nv := 1; nv <= 2; nv++ {
		v.gemm(nv, false)
		v.gemm(nv, true)
	}
}

// gemmRows are the numbers of rows whose sums are in registers at a time. Six rows of four vectors
// (AVX-512) or two (AVX2) fill the registers and keep both units busy.
var gemmRows = []int{6, 4, 2, 1}

// A strip is the state of a generated product: pointers to the current rows.
type strip struct {
	*isa
	nv             int
	tail           *mask
	m              reg.GPVirtual // remaining rows
	a, c, start    reg.GPVirtual
	row, row3, col reg.GPVirtual // bytes from a row of a to the next, three times that, and to the next column
	ldb            reg.GPVirtual
}

func (v *isa) gemm(nv int, masked bool) {
	name, args := fmt.Sprintf("gemm%d", nv), ""
	doc := fmt.Sprintf("sets m rows of c, %d vectors wide, to those of start plus a·b, in the order of k.", nv)
	if masked {
		name, args = name+"Tail", ", tail int"
		doc += " Of the last vector it takes tail lanes."
	}
	v.function(name, "m, k int, a *float32, row, col int, b *float32, ldb int, c *float32, ldc int, start *float32, ldstart int"+args,
		doc+" Strides are in bytes.")
	s := strip{isa: v, nv: nv, m: GP64(), a: GP64(), c: GP64(), start: GP64(), row: GP64(), row3: GP64(), col: GP64(), ldb: GP64()}
	if masked {
		n := GP64()
		Load(Param("tail"), n)
		s.tail = v.mask(n)
	}
	Load(Param("m"), s.m)
	Load(Param("a"), s.a)
	Load(Param("row"), s.row)
	Load(Param("col"), s.col)
	Load(Param("ldb"), s.ldb)
	Load(Param("c"), s.c)
	Load(Param("start"), s.start)
	LEAQ(Mem{Base: s.row, Index: s.row, Scale: 2}, s.row3)
	for _, rows := range gemmRows {
		s.block(rows)
	}
	v.end()
}

// block generates the loop over blocks of the given number of rows.
func (s *strip) block(rows int) {
	begin, done := fmt.Sprintf("rows%d", rows), fmt.Sprintf("rows%dend", rows)
	Label(begin)
	CMPQ(s.m, U32(uint32(rows)))
	JL(LabelRef(done))
	sums := make([][]reg.VecVirtual, rows)
	for i := range sums {
		for range s.nv {
			sums[i] = append(sums[i], s.vec())
		}
	}
	s.loadStart(rows, sums)
	s.loop(rows, sums)

	step := GP64()
	Load(Param("ldc"), step)
	for _, row := range sums {
		for j, x := range row {
			s.store(x, s.maskOf(j), s.at(s.c, j))
		}
		ADDQ(step, s.c)
	}
	for _, r := range map[int][]reg.GPVirtual{6: {s.row3, s.row3}, 4: {s.row3, s.row}, 2: {s.row, s.row}, 1: {s.row}}[rows] {
		ADDQ(r, s.a)
	}
	SUBQ(U32(uint32(rows)), s.m)
	JMP(LabelRef(begin))
	Label(done)
}

// loadStart gives the sums their first values and moves start to the next block.
func (s *strip) loadStart(rows int, sums [][]reg.VecVirtual) {
	given, ready := fmt.Sprintf("start%d", rows), fmt.Sprintf("ready%d", rows)
	TESTQ(s.start, s.start)
	JNE(LabelRef(given))
	for _, row := range sums {
		for _, x := range row {
			VXORPS(x, x, x)
		}
	}
	JMP(LabelRef(ready))
	Label(given)
	step := GP64()
	Load(Param("ldstart"), step)
	for _, row := range sums {
		for j, x := range row {
			s.load(s.at(s.start, j), s.maskOf(j), x)
		}
		ADDQ(step, s.start)
	}
	Label(ready)
}

// loop generates the loop over k.
func (s *strip) loop(rows int, sums [][]reg.VecVirtual) {
	k, a, a3, b := GP64(), GP64(), GP64(), GP64()
	Load(Param("k"), k)
	Load(Param("b"), b)
	MOVQ(s.a, a)
	elements := []Mem{{Base: a}, {Base: a, Index: s.row, Scale: 1}, {Base: a, Index: s.row, Scale: 2},
		{Base: a3}, {Base: a3, Index: s.row, Scale: 1}, {Base: a3, Index: s.row, Scale: 2}}
	if rows > 3 {
		LEAQ(Mem{Base: s.a, Index: s.row3, Scale: 1}, a3)
	}
	s.align()
	Label(fmt.Sprintf("k%d", rows))
	vectors := make([]reg.VecVirtual, s.nv)
	for j := range vectors {
		vectors[j] = s.vec()
		s.load(s.at(b, j), s.maskOf(j), vectors[j])
	}
	for i, row := range sums {
		x := s.vec()
		VBROADCASTSS(elements[i], x)
		for j := range row {
			VFMADD231PS(vectors[j], x, row[j])
		}
	}
	ADDQ(s.ldb, b)
	ADDQ(s.col, a)
	if rows > 3 {
		ADDQ(s.col, a3)
	}
	DECQ(k)
	JNE(LabelRef(fmt.Sprintf("k%d", rows)))
}

// at returns the j-th vector from p on.
func (s *strip) at(p reg.GPVirtual, j int) Mem { return Mem{Base: p, Disp: j * s.bytes()} }

// maskOf returns the mask of the j-th vector.
func (s *strip) maskOf(j int) *mask {
	if j == s.nv-1 {
		return s.tail
	}
	return nil
}
