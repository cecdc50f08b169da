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
//
// A variance is that of the numbers less the first, so that it is exactly 0 for equal numbers and large ones do not
// cancel. Both are computed together, since a sum waits most of its time for its last addition.
func ExplainedVariance(value, ret []float32) float64 {
	n := float64(len(ret))
	value = value[:len(ret)]
	firstRet, firstRest := float64(ret[0]), float64(ret[0])-float64(value[0])
	var sumRet, sumRest, squaresRet, squaresRest float64
	for i, x := range ret {
		r := float64(x)
		sumRet += r - firstRet
		sumRest += r - float64(value[i]) - firstRest
	}
	meanRet, meanRest := sumRet/n, sumRest/n
	for i, x := range ret {
		r := float64(x)
		d, e := r-firstRet-meanRet, r-float64(value[i])-firstRest-meanRest
		squaresRet += d * d
		squaresRest += e * e
	}
	varRet := squaresRet / n
	if varRet == 0 {
		return 0
	}
	return 1 - squaresRest/n/varRet
}
