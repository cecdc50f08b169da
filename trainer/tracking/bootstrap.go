package tracking

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Test is an estimate of a mean with the p-values of both one-sided tests. Its interval excludes 0 if and only
// if one of them is at most 0.025.
type Test struct {
	Estimate
	Above float64 // p-value against a mean of at most 0: small if the mean is above 0
	Below float64 // p-value against a mean of at least 0
}

// PairedTest tests the mean of a[i]-b[i] by Student's t. It panics if the lengths differ. For fewer than two
// values, or without variance, see degenerate.
func PairedTest(a, b []float64) Test {
	d := differences(a, b)
	s := Std(d) / math.Sqrt(float64(len(d)))
	if len(d) < 2 || s == 0 {
		return degenerate(Mean(d), len(d) < 2)
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(d) - 1)}
	return Test{StudentT(d), t.CDF(-Mean(d) / s), t.CDF(Mean(d) / s)}
}

// degenerate returns the test of a sample without spread. Equal values other than 0 leave no doubt about the
// sign. If the sample is too small, only its mean is known.
func degenerate(mean float64, tooSmall bool) Test {
	switch {
	case tooSmall:
		return Test{Estimate{mean, math.NaN(), math.NaN()}, 1, 1}
	case mean > 0:
		return Test{Estimate{mean, mean, mean}, 0, 1}
	case mean < 0:
		return Test{Estimate{mean, mean, mean}, 1, 0}
	}
	return Test{Estimate{}, 1, 1}
}

// Resamples is the number of resamples of a bootstrap. With 9999, the ends of a 95 % interval are order
// statistics, and the interval agrees with the p-values.
const Resamples = 9999

// TwoWayTest tests the mean of x[m][e], the value of model m in episode e, where both models and episodes are
// samples: of trainings with other seeds, and of episodes. It is a bootstrap-t that resamples models and
// episodes independently, with a fixed seed of its own, so that equal samples give equal bits.
// docs/results/method.md explains why it is neither a percentile interval nor BCa. TwoWayTest panics if rows
// differ in length; the interval is NaN for fewer than two models or episodes. An end is infinite if more than
// 2.5 % of the resamples differ from the mean to its side and have no spread.
//
// Sources: Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1 (2007), for resampling both
// factors; Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), section 12.5, for the t.
func TwoWayTest(x [][]float64) Test {
	if len(x) == 0 {
		return degenerate(math.NaN(), true)
	}
	for _, row := range x {
		if len(row) != len(x[0]) {
			panic(fmt.Sprintf("tracking: rows of %d and %d episodes, want equal lengths", len(x[0]), len(row)))
		}
	}
	b := newTwoWay(x)
	mean, variance := b.estimate()
	if len(x) < 2 || len(x[0]) < 2 || variance == 0 {
		return degenerate(mean, len(x) < 2 || len(x[0]) < 2)
	}
	ts := b.studentized(mean, variance)
	slices.Sort(ts)
	s := math.Sqrt(variance)
	tail := int(math.Round((1 - Level) / 2 * (Resamples + 1)))
	first, _ := slices.BinarySearch(ts, mean/s)                              // number of values below mean/s
	after, _ := slices.BinarySearch(ts, math.Nextafter(mean/s, math.Inf(1))) // number of values up to mean/s
	return Test{
		Estimate{mean, mean - ts[Resamples-tail]*s, mean - ts[tail-1]*s},
		float64(1+Resamples-first) / (Resamples + 1), float64(1+after) / (Resamples + 1),
	}
}

// twoWay holds a sample, and the multiplicities of its models and episodes in a resample.
type twoWay struct {
	x        [][]float64
	models   []float64
	episodes []float64
	row      []float64 // mean over episodes, by model
	column   []float64 // mean over models, by episode
}

func newTwoWay(x [][]float64) *twoWay {
	m, e := len(x), len(x[0])
	return &twoWay{x, slices.Repeat([]float64{1}, m), slices.Repeat([]float64{1}, e), make([]float64, m), make([]float64, e)}
}

// estimate returns the mean of the resample and the variance of that mean: the variance of the models' means
// divided by their number, plus the same for the episodes' means. Both include the noise of single plays, so
// that the sum is slightly too large rather than too small.
func (b *twoWay) estimate() (mean, variance float64) {
	m, e := float64(len(b.models)), float64(len(b.episodes))
	clear(b.column)
	clear(b.row)
	for i, values := range b.x {
		for k, v := range values {
			b.row[i] += b.episodes[k] * v / e
			b.column[k] += b.models[i] * v / m
		}
		mean += b.models[i] * b.row[i] / m
	}
	for i, r := range b.row {
		variance += b.models[i] * (r - mean) * (r - mean) / (m * (m - 1))
	}
	for k, c := range b.column {
		variance += b.episodes[k] * (c - mean) * (c - mean) / (e * (e - 1))
	}
	return mean, variance
}

// studentized draws resamples and returns the deviation of each from mean, in its own standard errors.
func (b *twoWay) studentized(mean, variance float64) []float64 {
	rng := rand.New(rand.NewPCG(20260101, 17))
	ts := make([]float64, Resamples)
	for i := range ts {
		for _, counts := range [][]float64{b.models, b.episodes} {
			clear(counts)
			for range counts {
				counts[rng.IntN(len(counts))]++
			}
		}
		m, v := b.estimate()
		if d := m - mean; d*d > 1e-18*variance { // otherwise 0, also for a resample without spread, which gives 0/0
			ts[i] = d / math.Sqrt(v)
		}
	}
	return ts
}
