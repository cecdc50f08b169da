package rollout_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents/rollout"
)

// TestNormalize: 1, 2, 3, 6 have mean 3 and sample variance (4+1+0+9)/3 = 14/3.
func TestNormalize(t *testing.T) {
	x := []float32{1, 2, 3, 6}
	rollout.Normalize(x)
	d := float32(math.Sqrt(14. / 3))
	if diff := cmp.Diff([]float32{-2 / d, -1 / d, 0, 3 / d}, x, cmpopts.EquateApprox(1e-6, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	equal := []float32{7, 7, 7}
	rollout.Normalize(equal)
	if diff := cmp.Diff([]float32{0, 0, 0}, equal); diff != "" {
		t.Errorf("equal advantages (-want +got):\n%s", diff)
	}
}

func TestExplainedVariance(t *testing.T) {
	for _, tc := range []struct {
		name       string
		value, ret []float32
		want       float64
	}{
		{"perfect", []float32{1, 2, 3}, []float32{1, 2, 3}, 1},
		{"perfect but for a constant", []float32{6, 7, 8}, []float32{1, 2, 3}, 1},
		{"constant", []float32{5, 5, 5}, []float32{1, 2, 3}, 0},
		{"the wrong way", []float32{3, 2, 1}, []float32{1, 2, 3}, -3}, // differences −2, 0, 2: 1 − 4
		{"half", []float32{0, 2, 2, 4}, []float32{0, 1, 3, 4}, 0.8},   // variances 10/4 and 2/4
		{"equal returns", []float32{1, 2, 3}, []float32{4, 4, 4}, 0},
		// The mean of the squares of seven float32(1.9) is not the square of their mean.
		{"equal returns that are no binary fraction", []float32{1, 2, 3, 4, 5, 6, 7}, slices.Repeat([]float32{1.9}, 7), 0},
		// Deviations of 1/128 beside 1e5: the squares of the numbers themselves hide them.
		{"large returns", slices.Repeat([]float32{0, 1. / 128}, 8192), slices.Repeat([]float32{1e5, 1e5 + 1./128}, 8192), 1},
	} {
		if got := rollout.ExplainedVariance(tc.value, tc.ret); !(math.Abs(got-tc.want) <= 1e-9) {
			t.Errorf("%s: explained variance %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestExplainedVarianceBits: the sums keep the order of the definition, one number after the other.
func TestExplainedVarianceBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		value, ret := make([]float32, 5), make([]float32, 5)
		for i := range ret {
			value[i], ret[i] = float32(90*rng.NormFloat64()), float32(100*rng.NormFloat64())
		}
		variance := func(x func(int) float64) float64 {
			var sum, squares float64
			for i := range ret {
				sum += x(i) - x(0)
			}
			mean := sum / float64(len(ret))
			for i := range ret {
				d := x(i) - x(0) - mean
				squares += d * d
			}
			return squares / float64(len(ret))
		}
		want := 1 - variance(func(i int) float64 { return float64(ret[i]) - float64(value[i]) })/variance(func(i int) float64 { return float64(ret[i]) })
		if got := rollout.ExplainedVariance(value, ret); got != want {
			t.Fatalf("ExplainedVariance(%v, %v) = %v, want %v", value, ret, got, want)
		}
	}
}
