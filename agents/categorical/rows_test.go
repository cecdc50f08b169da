package categorical_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/agents/categorical"
)

// TestRows: all numbers are those of a Distribution of the row, bit for bit, with any number of rows and actions, with
// and without masks, and with outputs beside the logits.
func TestRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
	for _, n := range []int{1, 2, 3, 5, 8, 16} {
		for _, count := range []int{1, 7, 8, 64} {
			for _, masked := range []bool{false, true} {
				rows, one, stride := categorical.NewRows(n, 64), categorical.New(n), n+2
				out, mask := make([]float32, count*stride), make([]bool, 0, count*n)
				for i := range out {
					out[i] = float32(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(5)-2)))
					if rng.IntN(4) == 0 {
						out[i] = float32(math.Copysign(0, rng.Float64()-0.5))
					}
				}
				for r := range count {
					for range n {
						mask = append(mask, rng.IntN(2) == 0)
					}
					mask[r*n+rng.IntN(n)] = true
				}
				if !masked {
					mask = nil
				}
				if !rows.Condition(out[1:], stride, count, mask) {
					t.Fatalf("%d actions, %d rows: Condition = false for finite logits", n, count)
				}
				for r := range count {
					logits, permitted := out[1+r*stride:][:n], mask
					if masked {
						permitted = mask[r*n:][:n]
					}
					one.Condition(logits, permitted)
					for a := range n {
						if got, want := rows.LogProb(r, a), one.LogProb(a); !same(got, want) {
							t.Fatalf("%v, %v: log probability of %d is %v, want %v", logits, permitted, a, got, want)
						}
					}
					if got, want := rows.Entropy(r), one.Entropy(); !same(got, want) {
						t.Fatalf("%v, %v: entropy %v, want %v", logits, permitted, got, want)
					}
					seed, action := rng.Uint64(), rng.IntN(n)
					sampled := one.Sample(rand.New(rand.NewPCG(seed, 0)))
					if got := rows.Sample(r, rand.New(rand.NewPCG(seed, 0)).Float64()); got != sampled {
						t.Fatalf("%v, %v: sampled %d, want %d", logits, permitted, got, sampled)
					}
					got, want := make([]float32, n), make([]float32, n)
					rows.Grad(r, got, action, 0.7, -0.01)
					one.Grad(want, action, 0.7, -0.01)
					for j := range got {
						if math.Float32bits(got[j]) != math.Float32bits(want[j]) {
							t.Fatalf("%v, %v: gradient %v, want %v", logits, permitted, got, want)
						}
					}
				}
			}
		}
	}
}

// TestRowsReject: Condition rejects infinite logits that are permitted, NaN, and rows that permit nothing.
func TestRowsReject(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tc := range []struct {
		logits []float32 // of two rows
		mask   []bool
		want   bool
	}{
		{[]float32{0, 1, 2, 3}, nil, true},
		{[]float32{0, 1, 2, nan}, nil, false},
		{[]float32{0, 1, 2, -inf}, nil, false},
		{[]float32{inf, 1, 2, 3}, nil, false},
		{[]float32{inf, 1, 2, nan}, []bool{false, true, true, false}, true},
		{[]float32{inf, 1, 2, 3}, []bool{true, false, true, true}, false},
		{[]float32{0, 1, 2, -inf}, []bool{true, true, true, true}, false},
		{[]float32{0, 1, 2, 3}, []bool{true, true, false, false}, false},
	} {
		if got := categorical.NewRows(2, 2).Condition(tc.logits, 2, 2, tc.mask); got != tc.want {
			t.Errorf("Condition(%v, %v) = %v, want %v", tc.logits, tc.mask, got, tc.want)
		}
	}
}
