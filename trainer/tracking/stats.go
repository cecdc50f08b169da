package tracking

import (
	"encoding/json"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Level is the confidence level of every interval of this package.
const Level = 0.95

// Estimate is a mean with its 95 % confidence interval. Low and High are NaN if the sample is too small for an interval,
// and infinite if the sample does not bound that end; see TwoWayTest. As JSON they are then null.
type Estimate struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// MarshalJSON implements [json.Marshaler]: JSON has neither NaN nor infinities.
func (e Estimate) MarshalJSON() ([]byte, error) {
	end := func(x float64) *float64 {
		if !finite(x) {
			return nil
		}
		return &x
	}
	return json.Marshal(struct {
		Mean float64  `json:"mean"`
		Low  *float64 `json:"low"`
		High *float64 `json:"high"`
	}{e.Mean, end(e.Low), end(e.High)})
}

// Mean returns the arithmetic mean of x, or NaN if x is empty.
func Mean(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Std returns the sample standard deviation of x (divisor n-1), or NaN for fewer than two values.
func Std(x []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
	mean := Mean(x)
	var sum float64
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}

// StudentT returns the mean of x with its 95 % interval mean ± t·s/√n, where s is the sample
// standard deviation and t the 0.975 quantile of Student's t with n-1 degrees of freedom. The
// interval is NaN for fewer than two values.
func StudentT(x []float64) Estimate {
	mean := Mean(x)
	if len(x) < 2 {
		return Estimate{mean, math.NaN(), math.NaN()}
	}
	n := float64(len(x))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(1 - (1-Level)/2)
	half := t * Std(x) / math.Sqrt(n)
	return Estimate{mean, mean - half, mean + half}
}

// PairedDifference returns the mean of a[i]-b[i] with its 95 % interval by Student's t. a[i] and b[i] belong to
// episodes with the same seed, so that influences on both policies cancel. It panics if the lengths differ.
func PairedDifference(a, b []float64) Estimate { return StudentT(differences(a, b)) }

func differences(a, b []float64) []float64 {
	if len(a) != len(b) {
		panic(fmt.Sprintf("tracking: paired samples of %d and %d values, want equal lengths", len(a), len(b)))
	}
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

// Deviation returns the standard deviation with divisor n, as in NumPy and Stable-Baselines3; it is 0 for one
// episode.
func Deviation(x []float64) float64 {
	mean, sum := Mean(x), 0.0
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(x)))
}
