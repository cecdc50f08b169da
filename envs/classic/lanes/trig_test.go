package lanes

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/pcg"
)

// exactSinCos sums both Taylor series with 300 bits and rounds once.
func exactSinCos(x float64) (sin, cos float64) {
	const prec = 300
	z := new(big.Float).SetPrec(prec).SetFloat64(x)
	sum := [2]*big.Float{new(big.Float).SetPrec(prec), new(big.Float).SetPrec(prec)}
	term := new(big.Float).SetPrec(prec).SetInt64(1) // x^n / n!
	for n := int64(0); n < 60; n++ {
		t := new(big.Float).SetPrec(prec).Set(term)
		if n/2%2 == 1 {
			t.Neg(t)
		}
		sum[n%2].Add(sum[n%2], t)
		term.Mul(term, z)
		term.Quo(term, new(big.Float).SetPrec(prec).SetInt64(n+1))
	}
	sin, _ = sum[1].Float64()
	cos, _ = sum[0].Float64()
	return sin, cos
}

func TestSinCosCorrectlyRounded(t *testing.T) {
	rng := rand.New(pcg.New(1))
	xs := []float64{0, 1e-300, 1e-9, -1e-9, 1e-4, 0.20943951023931953, -0.20943951023931953, math.Pi / 4, -math.Pi / 4}
	for range 5_000 {
		xs = append(xs, pcg.Scale(rng.Uint64(), -math.Pi/4, math.Pi/4), pcg.Scale(rng.Uint64(), -0.05, 0.05))
	}
	for _, x := range xs {
		sin, cos := SinCos(x)
		if wantSin, wantCos := exactSinCos(x); sin != wantSin || cos != wantCos {
			t.Errorf("SinCos(%x) = %x, %x; want %x, %x", x, sin, cos, wantSin, wantCos)
		}
	}
}

func TestSinCosBeyond(t *testing.T) {
	for _, x := range []float64{0.8, -1, 10, 1e300} {
		if sin, cos := SinCos(x); sin != math.Sin(x) || cos != math.Cos(x) {
			t.Errorf("SinCos(%v) = %v, %v, want those of package math", x, sin, cos)
		}
	}
	if sin, cos := SinCos(math.Inf(1)); !math.IsNaN(sin) || !math.IsNaN(cos) {
		t.Errorf("SinCos(+Inf) = %v, %v, want NaN", sin, cos)
	}
}
