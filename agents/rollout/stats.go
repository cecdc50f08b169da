package rollout

import "math"

// Normalize shifts and scales x to mean 0 and sample deviation 1, up to 1e-8.
func Normalize(x []float32) {
	mean, n := 0.0, float64(len(x))
	for _, v := range x {
		mean += float64(v)
	}
	mean /= n
	variance := 0.0
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean)
	}
	scale := 1 / (math.Sqrt(variance/(n-1)) + 1e-8)
	for i, v := range x {
		x[i] = float32((float64(v) - mean) * scale)
	}
}

// ExplainedVariance returns 1 − Var(ret − value)/Var(ret): 1 for perfect values, 0 for
// constant ones. It is 0 if the returns do not vary.
func ExplainedVariance(value, ret []float32) float64 {
	varR := variance(len(ret), func(i int) float64 { return float64(ret[i]) })
	if varR == 0 {
		return 0
	}
	return 1 - variance(len(ret), func(i int) float64 { return float64(ret[i]) - float64(value[i]) })/varR
}

// variance returns the variance of n numbers. It shifts them by the first, so that it is exactly 0
// for equal numbers and large ones do not cancel.
func variance(n int, x func(int) float64) float64 {
	var sum, sum2 float64
	for i := range n {
		sum += x(i) - x(0)
	}
	mean := sum / float64(n)
	for i := range n {
		d := x(i) - x(0) - mean
		sum2 += d * d
	}
	return sum2 / float64(n)
}
