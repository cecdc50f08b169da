// Command asm generates the kernels of package vmath for AVX2 and AVX-512: exponentials and logarithms with the
// operations of Go's exp_amd64.s and log_amd64.s, in the same order, so that the bits are the same; and prefetching.
package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego") // file names imply amd64
	for _, v := range []isa{{"AVX2", 4}, {"AVX512", 8}} {
		v.shiftedExp()
		v.log()
	}
	prefetch()
	Generate()
}

// prefetch generates a loop over lines of the cache.
func prefetch() {
	const line = 64
	TEXT("prefetch", NOSPLIT, "func(p *byte, n int)")
	Pragma("noescape")
	Doc("prefetch asks for the lines of the cache that hold n bytes, at least one. It waits for none.")
	p, n := GP64(), GP64()
	Load(Param("p"), p)
	Load(Param("n"), n)
	ADDQ(p, n)
	ANDQ(I8(-line), p)
	Label("lines")
	PREFETCHT0(Mem{Base: p})
	ADDQ(U8(line), p)
	CMPQ(p, n)
	JLT(LabelRef("lines"))
	RET()
}

// isa is an instruction set to generate for.
type isa struct {
	name  string
	lanes int // float64 in a vector
}

func (v isa) wide() bool { return v.lanes == 8 }

func (v isa) vec() reg.VecVirtual {
	if v.wide() {
		return ZMM()
	}
	return YMM()
}

// half returns a register of half the size, for as many int32.
func (v isa) half() reg.VecVirtual {
	if v.wide() {
		return YMM()
	}
	return XMM()
}

// limit bounds the arguments of a vector: their results are neither infinite nor subnormal.
const limit = 708

// The constants of exp_amd64.s: log2(e), ln(2) in two parts, and 1/n! for n from 8 to 1.
const (
	log2E = 1.4426950408889634073599246810018920
	ln2U  = 0.69314718055966295651160180568695068359375
	ln2L  = 0.28235290563031577122588448175013436025525412068e-12
)

var series = []float64{2.4801587301587301587e-5, 1.9841269841269841270e-4, 1.3888888888888888889e-3,
	8.3333333333333333333e-3, 4.1666666666666666667e-2, 1.6666666666666666667e-1, 0.5, 1}

// shiftedExp generates a loop over vectors and a masked one for the rest.
func (v isa) shiftedExp() {
	TEXT("shiftedExp"+v.name, NOSPLIT, "func(dst, x *float64, n int, c float64) int")
	Pragma("noescape")
	Doc("shiftedExp"+v.name+" subtracts c from each of n elements of x and sets dst to their exponentials, as far as",
		"the first vector with a difference that is not within ±708. It returns the number of elements before.")
	dst, x, left := GP64(), GP64(), GP64()
	Load(Param("dst"), dst)
	Load(Param("x"), x)
	Load(Param("n"), left)
	scalar, c := XMM(), v.vec()
	Load(Param("c"), scalar)
	VBROADCASTSD(scalar, c)

	Label("vectors")
	CMPQ(left, U8(v.lanes))
	JL(LabelRef("tail"))
	in := v.vec()
	VMOVUPD(Mem{Base: x}, in)
	VSUBPD(c, in, in)
	v.check(in, "end")
	VMOVUPD(in, Mem{Base: x})
	VMOVUPD(v.exp(in), Mem{Base: dst})
	ADDQ(U8(8*v.lanes), x)
	ADDQ(U8(8*v.lanes), dst)
	SUBQ(U8(v.lanes), left)
	JMP(LabelRef("vectors"))

	Label("tail")
	TESTQ(left, left)
	JEQ(LabelRef("end"))
	load, store := v.masked(left)
	rest := v.vec()
	load(Mem{Base: x}, rest)
	VSUBPD(c, rest, rest)
	load(nil, rest) // the other lanes are 0 again, which is within the limit
	v.check(rest, "end")
	store(rest, Mem{Base: x})
	store(v.exp(rest), Mem{Base: dst})
	XORQ(left, left)

	Label("end")
	done := GP64()
	Load(Param("n"), done)
	SUBQ(left, done)
	VZEROUPPER()
	Store(done, ReturnIndex(0))
	RET()
}

// masked returns functions that load and store the first n lanes. Without memory, load clears the
// other lanes of the register.
func (v isa) masked(n reg.GPVirtual) (load func(Op, reg.VecVirtual), store func(reg.VecVirtual, Mem)) {
	if v.wide() {
		k, bits := K(), GP64()
		MOVQ(I32(-1), bits)
		BZHIQ(n, bits, bits)
		KMOVW(bits.As32(), k)
		load = func(src Op, dst reg.VecVirtual) {
			if src == nil {
				src = dst
			}
			VMOVUPD_Z(src, k, dst)
		}
		return load, func(src reg.VecVirtual, dst Mem) { VMOVUPD(src, k, dst) }
	}
	m, table, offset := YMM(), GP64(), GP64()
	LEAQ(laneTable(), table)
	MOVQ(n, offset)
	NEGQ(offset)
	VMOVUPD(Mem{Base: table, Index: offset, Scale: 8, Disp: 32}, m)
	load = func(src Op, dst reg.VecVirtual) {
		if src == nil {
			VANDPD(m, dst, dst)
			return
		}
		VMASKMOVPD(src, m, dst)
	}
	return load, func(src reg.VecVirtual, dst Mem) { VMASKMOVPD(src, m, dst) }
}

// laneTable holds four selected and four other lanes, from which AVX2 masks are loaded.
func laneTable() Mem {
	m := GLOBL("lanes", RODATA|NOPTR)
	for i := range 8 {
		x := uint64(0)
		if i < 4 {
			x = math.MaxUint64
		}
		DATA(8*i, U64(x))
	}
	return m
}

// check jumps to a label if a lane is NaN or not within ±limit.
func (v isa) check(x reg.VecVirtual, label string) {
	const lessOrEqual = 0x12 // LE_OQ
	size := v.vec()
	VANDPD(integers(math.MaxInt64), x, size)
	if v.wide() {
		k := K()
		VCMPPD(U8(lessOrEqual), constant(limit), size, k)
		KORTESTB(k, k)
		JCC(LabelRef(label)) // carry: all eight bits are set
		return
	}
	lanes := GP32()
	VCMPPD(U8(lessOrEqual), constant(limit), size, size)
	VMOVMSKPD(size, lanes)
	CMPL(lanes, U8(15))
	JNE(LabelRef(label))
}

// exp replaces f by its exponentials and returns it.
func (v isa) exp(f reg.VecVirtual) reg.VecVirtual {
	k, power := v.half(), v.vec()
	n := v.vec()
	VMULPD(constant(log2E), f, n)
	if v.wide() {
		VCVTPD2DQ(n, k)
	} else {
		VCVTPD2DQY(n, k)
	}
	VCVTDQ2PD(k, n)
	VFNMADD231PD(constant(ln2U), n, f)
	VFNMADD231PD(constant(ln2L), n, f)
	VMULPD(constant(0.0625), f, f)
	y := v.vec()
	VMOVUPD(constant(series[0]), y)
	for _, c := range series[1:] {
		VFMADD213PD(constant(c), f, y)
	}
	VMULPD(y, f, f)
	for range 3 { // exp(2f)-1 = (exp(f)-1)·(exp(f)-1+2)
		VADDPD(constant(2), f, y)
		VMULPD(y, f, f)
	}
	VADDPD(constant(2), f, y)
	VFMADD213PD(constant(1), y, f)
	VPMOVSXDQ(k, power)
	VPADDQ(integers(1023), power, power)
	VPSLLQ(U8(52), power, power)
	VMULPD(power, f, f)
	return f
}

// The constants of log_amd64.s: ln(2) in two parts, √2/2, and the coefficients of the series.
const (
	ln2Hi    = 6.93147180369123816490e-01
	ln2Lo    = 1.90821492927058770002e-10
	halfSqrt = 7.07106781186547524401e-01
)

var logSeries = []float64{1: 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
	1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01}

// log generates a loop over vectors.
func (v isa) log() {
	TEXT("log"+v.name, NOSPLIT, "func(dst, x *float64, n int) int")
	Pragma("noescape")
	Doc("log"+v.name+" sets dst to the logarithms of elements of x, as far as the first vector with one that is not a positive",
		"normal number, or the last whole vector of n elements. It returns the number of elements before.")
	dst, x, left := GP64(), GP64(), GP64()
	Load(Param("dst"), dst)
	Load(Param("x"), x)
	Load(Param("n"), left)

	Label("vectors")
	CMPQ(left, U8(v.lanes))
	JL(LabelRef("end"))
	in := v.vec()
	VMOVUPD(Mem{Base: x}, in)
	v.checkNormal(in, "end")
	VMOVUPD(v.logOf(in), Mem{Base: dst})
	ADDQ(U8(8*v.lanes), x)
	ADDQ(U8(8*v.lanes), dst)
	SUBQ(U8(v.lanes), left)
	JMP(LabelRef("vectors"))

	Label("end")
	done := GP64()
	Load(Param("n"), done)
	SUBQ(left, done)
	VZEROUPPER()
	Store(done, ReturnIndex(0))
	RET()
}

// checkNormal jumps to a label if a lane is not a positive normal number.
func (v isa) checkNormal(x reg.VecVirtual, label string) {
	const (
		lessOrEqual    = 0x12 // LE_OQ
		greaterOrEqual = 0x1d // GE_OQ
		least          = 0x1p-1022
	)
	if v.wide() {
		low, high := K(), K()
		VCMPPD(U8(greaterOrEqual), constant(least), x, low)
		VCMPPD(U8(lessOrEqual), constant(math.MaxFloat64), x, high)
		KANDB(low, high, high)
		KORTESTB(high, high)
		JCC(LabelRef(label)) // carry: all eight bits are set
		return
	}
	low, high, lanes := v.vec(), v.vec(), GP32()
	VCMPPD(U8(greaterOrEqual), constant(least), x, low)
	VCMPPD(U8(lessOrEqual), constant(math.MaxFloat64), x, high)
	VANDPD(low, high, high)
	VMOVMSKPD(high, lanes)
	CMPL(lanes, U8(15))
	JNE(LabelRef(label))
}

// or sets the bits of m in x.
func (v isa) or(m Mem, x reg.VecVirtual) {
	if v.wide() {
		VPORQ(m, x, x)
	} else {
		VPOR(m, x, x)
	}
}

// logOf returns the logarithms of x, which it overwrites.
func (v isa) logOf(x reg.VecVirtual) reg.VecVirtual {
	// x = f1·2^k with f1 in [½, 1). The exponent's bits, put into a float64 of 2^52, become its integer.
	const magic = 0x1p52
	k, f := v.vec(), x
	VPSRLQ(U8(52), x, k)
	v.or(constant(magic), k)
	VSUBPD(constant(magic+1022), k, k)
	VANDPD(integers(1<<52-1), x, f)
	VORPD(constant(0.5), f, f)
	// if f1 ≤ √2/2 { k -= 1; f1 *= 2 }
	factor := v.vec()
	if v.wide() {
		small := K()
		VCMPPD(U8(0x12), constant(halfSqrt), f, small)
		VMOVUPD_Z(constant(1), small, factor)
	} else {
		VCMPPD(U8(0x12), constant(halfSqrt), f, factor)
		VANDPD(constant(1), factor, factor)
	}
	VSUBPD(factor, k, k)
	VADDPD(constant(1), factor, factor)
	VMULPD(factor, f, f)
	VSUBPD(constant(1), f, f)
	s, s2, s4, hfsq := v.vec(), v.vec(), v.vec(), v.vec()
	VADDPD(constant(2), f, s)
	VDIVPD(s, f, s)
	VMULPD(s, s, s2)
	VMULPD(s2, s2, s4)
	polynomial := func(first int, times reg.VecVirtual) { // times·(…+s4·(L[first-2]+s4·L[first]))
		t := v.vec()
		VMULPD(constant(logSeries[first]), s4, t)
		for i := first - 2; i >= 1; i -= 2 {
			VADDPD(constant(logSeries[i]), t, t)
			if i > 2 {
				VMULPD(s4, t, t)
			}
		}
		VMULPD(t, times, times)
	}
	polynomial(7, s2)  // t1
	polynomial(6, s4)  // t2
	VADDPD(s4, s2, s2) // R
	VMULPD(constant(0.5), f, hfsq)
	VMULPD(f, hfsq, hfsq)
	VADDPD(hfsq, s2, s2)
	VMULPD(s2, s, s)
	low := v.vec()
	VMULPD(constant(ln2Lo), k, low)
	VADDPD(low, s, s)
	VSUBPD(s, hfsq, hfsq)
	VSUBPD(f, hfsq, hfsq)
	VMULPD(constant(ln2Hi), k, k)
	VSUBPD(hfsq, k, k)
	return k
}

var constants = map[uint64]Mem{}

// constant returns a vector of equal float64 in memory.
func constant(x float64) Mem { return integers(math.Float64bits(x)) }

// integers returns a vector of equal uint64 in memory.
func integers(x uint64) Mem {
	if m, ok := constants[x]; ok {
		return m
	}
	m := GLOBL(fmt.Sprintf("v%016x", x), RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(x))
	}
	constants[x] = m
	return m
}
