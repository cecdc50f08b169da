package workload

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestModAndRound compares with package math, bit by bit: at random, beside multiples and halves, and at the bounds.
func TestModAndRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		y := []float64{day, week, 0.7, math.Exp(8 * rng.NormFloat64())}[rng.IntN(4)]
		for _, x := range []float64{y * 40 * rng.Float64(), y * float64(rng.IntN(1000)), y * math.Exp(45*rng.Float64()), rng.Float64()} {
			for _, x := range []float64{x, math.Nextafter(x, math.Inf(1)), math.Nextafter(x, 0)} {
				if got, want := mod(x, y), math.Mod(x, y); got != want {
					t.Fatalf("mod(%v, %v) = %v, want %v", x, y, got, want)
				}
			}
		}
	}
	for range 1_000_000 {
		n := math.Floor(math.Exp(40 * rng.Float64()))
		for _, x := range []float64{n, n + 0.5, math.Nextafter(n+0.5, 0), n + rng.Float64(), -n, 0.49999999999999994, math.Inf(1)} {
			if got, want := round(x), int64(math.Round(min(max(x, 0), maxAmount))); got != want {
				t.Fatalf("round(%v) = %v, want %v", x, got, want)
			}
		}
	}
}
