package tracking

import (
	"cmp"
	"math"
	"slices"
)

// Holm returns p-values adjusted for multiple testing. If each hypothesis whose adjusted value is at most α is
// rejected, the probability of rejecting any true one is at most α, however the tests depend on each other. The
// k-th smallest of n is multiplied by n-k+1; an adjusted value is at least that of each smaller one, and at
// most 1.
//
// Source: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6
// (1979).
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted := make([]float64, len(p))
	largest := 0.0
	for k, i := range order {
		largest = math.Max(largest, math.Min(1, float64(len(p)-k)*p[i]))
		adjusted[i] = largest
	}
	return adjusted
}
