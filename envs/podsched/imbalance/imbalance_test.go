package imbalance_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
)

// TestSD4 compares it with SD, to the bit, and both with gonum.
func TestSD4(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for _, n := range []int{1, 2, 7, 1000} {
		var x [4][]float64
		for k := range x {
			for range n {
				x[k] = append(x[k], math.Exp(5*r.NormFloat64()))
			}
		}
		var got [4]float64
		got[0], got[1], got[2], got[3] = imbalance.SD4(x[0], x[1], x[2], x[3])
		for k := range x {
			if want := imbalance.SD(x[k]); got[k] != want {
				t.Errorf("%d numbers: SD4 gives %v for slice %d, SD %v", n, got[k], k, want)
			}
			if want := math.Sqrt(stat.PopVariance(x[k], nil)); math.Abs(got[k]-want) > 1e-9*want {
				t.Errorf("%d numbers: %v, want %v", n, got[k], want)
			}
		}
	}
}

// TestShares by hand, with what clips.
func TestShares(t *testing.T) {
	got := make([]float32, 5)
	imbalance.Shares(got, []float64{-1, 0, 1, 4, 6}, []float64{2, 2, 4, 4, 4})
	if want := []float32{0, 0, 0.25, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("shares %v, want %v", got, want)
	}
}
