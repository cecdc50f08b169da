// Command asm generates the kernels of package lanes for AVX2 and AVX-512. Each lane is an environment and makes
// the operations of classic.CartPoleStep and lanes.SinCos in their order, so that the bits are the same.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/kubernasium/kubernasium/envs/classic/lanes/internal/table"
)

func main() {
	ConstraintExpr("!purego") // the names of the files say amd64
	isa{"AVX2", 32}.step()
	isa{"AVX512", 64}.step()
	Generate()
}

// isa is one instruction set.
type isa struct {
	name  string
	bytes int // of a vector
}

func (v isa) vec() reg.VecVirtual {
	if v.bytes == 64 {
		return ZMM()
	}
	return YMM()
}

// kernel holds the arguments of a step.
type kernel struct {
	isa
	constants reg.GPVirtual
	zero      reg.VecVirtual
}

// row returns a row of the table of constants.
func (k kernel) row(i int) Mem { return Mem{Base: k.constants, Disp: table.RowBytes * i} }

// dd is the unevaluated sum of two vectors.
type dd struct{ hi, lo reg.VecVirtual }

func (v isa) step() {
	TEXT("step"+v.name, NOSPLIT, "func(lanes, constants *float64, n int)")
	Pragma("noescape")
	Doc("step" + v.name + " is CartPoleStep of n rows of lanes, whole vectors. Its angles are at most π/4.")
	lanes, n := GP64(), GP64()
	k := kernel{v, GP64(), v.vec()}
	Load(Param("lanes"), lanes)
	Load(Param("constants"), k.constants)
	Load(Param("n"), n)
	array := func(i int) Mem { return Mem{Base: lanes, Disp: table.LaneBytes * i} }
	VXORPD(k.zero, k.zero, k.zero)
	Label("vectors")
	theta := v.vec()
	VMOVUPD(array(table.Theta), theta)
	sin, cos := k.sincos(theta)
	k.advance(array, theta, sin, cos)
	ADDQ(U8(v.bytes), lanes)
	SUBQ(U8(v.bytes/8), n)
	JNZ(LabelRef("vectors"))
	VZEROUPPER()
	RET()
}

func (k kernel) sincos(x reg.VecVirtual) (sin, cos reg.VecVirtual) {
	z := dd{k.vec(), k.vec()}
	VMULPD(x, x, z.hi)
	VMOVAPD(z.hi, z.lo)
	VFMSUB231PD(x, x, z.lo)

	r := dd{k.tail(z.hi, table.SinTail), k.zero}
	for i := range 3 {
		r = k.mulAdd(r, z, table.Sin+2*i)
	}
	sin = k.addTo(k.mul(k.mul(r, z), dd{x, k.zero}), x)

	r = dd{k.tail(z.hi, table.CosTail), k.zero}
	for i := range 4 {
		r = k.mulAdd(r, z, table.Cos+2*i)
	}
	return sin, k.addTo(k.mul(r, z), k.row(table.One))
}

func (k kernel) tail(z reg.VecVirtual, row int) reg.VecVirtual {
	r := k.vec()
	VMOVUPD(k.row(row), r)
	for i := 1; i < 8; i++ {
		VFMADD213PD(k.row(row+i), z, r)
	}
	return r
}

func (k kernel) mul(a, b dd) dd {
	p, e := k.vec(), k.vec()
	VMULPD(b.hi, a.hi, p)
	VMOVAPD(p, e)
	VFMSUB231PD(b.hi, a.hi, e)
	VFMADD231PD(b.lo, a.hi, e)
	VFMADD231PD(b.hi, a.lo, e)
	return dd{p, e}
}

// mulAdd adds a·b to the number whose parts are in two rows.
func (k kernel) mulAdd(a, b dd, row int) dd {
	p, s, t := k.mul(a, b), k.vec(), k.vec()
	VADDPD(k.row(row), p.hi, s)
	VSUBPD(k.row(row), s, t)
	VSUBPD(t, p.hi, t)
	VADDPD(p.lo, t, t)
	VADDPD(k.row(row+1), t, t)
	return dd{s, t}
}

func (k kernel) addTo(a dd, c Op) reg.VecVirtual {
	s, t := k.vec(), k.vec()
	VADDPD(c, a.hi, s)
	VSUBPD(c, s, t)
	VSUBPD(t, a.hi, t)
	VADDPD(a.lo, t, t)
	VADDPD(t, s, s)
	return s
}

// advance computes the accelerations and makes the step of Euler's method.
func (k kernel) advance(array func(int) Mem, theta, sin, cos reg.VecVirtual) {
	omega, temp, d, num := k.vec(), k.vec(), k.vec(), k.vec()
	VMOVUPD(array(table.Omega), omega)
	VMULPD(omega, omega, temp)
	VMULPD(k.row(table.PoleMassLength), temp, temp)
	VMULPD(sin, temp, temp)
	VADDPD(array(table.Force), temp, temp)
	mass := k.vec()
	VMOVUPD(k.row(table.MassTotal), mass)
	VDIVPD(mass, temp, temp)

	VMULPD(cos, cos, d)
	VMULPD(k.row(table.MassPole), d, d)
	VDIVPD(mass, d, d)
	fraction := k.vec()
	VMOVUPD(k.row(table.FourThirds), fraction)
	VSUBPD(d, fraction, d)
	VMULPD(k.row(table.HalfLength), d, d)
	VMULPD(k.row(table.Gravity), sin, num)
	product := k.vec()
	VMULPD(temp, cos, product)
	VSUBPD(product, num, num)
	VDIVPD(d, num, num) // the angular acceleration

	VMULPD(k.row(table.PoleMassLength), num, product)
	VMULPD(cos, product, product)
	VDIVPD(mass, product, product)
	VSUBPD(product, temp, temp) // the acceleration

	tau, vel := k.vec(), k.vec()
	VMOVUPD(k.row(table.Tau), tau)
	VMOVUPD(array(table.Vel), vel)
	add := func(at int, x, rate reg.VecVirtual) {
		VMULPD(tau, rate, rate)
		VADDPD(rate, x, x)
		VMOVUPD(x, array(at))
	}
	x, old := k.vec(), k.vec()
	VMOVUPD(array(table.Pos), x)
	VMOVAPD(vel, old)
	add(table.Pos, x, old)
	add(table.Vel, vel, temp)
	VMOVAPD(omega, old)
	add(table.Theta, theta, old)
	add(table.Omega, omega, num)
}
