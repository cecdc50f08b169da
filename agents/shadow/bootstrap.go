package shadow

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs/pcg"
)

const (
	// draws is the number of resamples of an interval.
	draws = 10_000
	// level is the confidence level of intervals.
	level = 0.95
	// minBlocks is the least number of blocks for intervals. With fewer, too few resamples are
	// distinct.
	minBlocks = 6
	// bootstrapSeed is fixed, so that equal recordings give equal reports. Its value is arbitrary.
	bootstrapSeed = 0x736861646f77
)

// ratio is a quantity by block of time: its value is the sum of num over the sum of den. A mean
// over time has seconds in den, a mean over pods their number.
type ratio struct{ num, den []float64 }

// value returns the quantity over all blocks, NaN where den is 0 throughout.
func (r ratio) value() float64 {
	var num, den float64
	for b := range r.num {
		num += r.num[b]
		den += r.den[b]
	}
	if den == 0 {
		return math.NaN()
	}
	return num / den
}

// minus returns the difference of two quantities with equal denominators.
func (r ratio) minus(o ratio) ratio {
	d := ratio{num: make([]float64, len(r.num)), den: r.den}
	for b := range d.num {
		d.num[b] = r.num[b] - o.num[b]
	}
	return d
}

// interval is a confidence interval.
type interval struct{ low, high float64 }

// bootstrap returns the 95 % interval of each ratio: from n blocks it draws n with replacement, 10,000 times, and takes
// the 0.025 and 0.975 quantiles of the values. Whole blocks are drawn because consecutive hours are correlated. All
// ratios use the same draws. Draws with denominator 0 do not count.
//
// Source: the percentile interval of Efron and Tibshirani, "An Introduction to the Bootstrap", 1993,
// section 13.3, over non-overlapping blocks as in Carlstein, "The Use of Subseries Values for
// Estimating the Variance of a General Statistic from a Stationary Sequence", Annals of Statistics
// 14(3), 1986.
func bootstrap(ratios []ratio, blocks int) []interval {
	rng := rand.New(pcg.New(bootstrapSeed))
	values := make([][]float64, len(ratios))
	times := make([]float64, blocks) // how often each block was drawn
	for range draws {
		clear(times)
		for range blocks {
			times[rng.IntN(blocks)]++
		}
		for i, r := range ratios {
			var num, den float64
			for b, n := range times {
				num += n * r.num[b]
				den += n * r.den[b]
			}
			if den > 0 {
				values[i] = append(values[i], num/den)
			}
		}
	}
	all := make([]interval, len(ratios))
	for i, v := range values {
		slices.Sort(v)
		all[i] = interval{quantile(v, (1-level)/2), quantile(v, (1+level)/2)}
	}
	return all
}

// quantile returns the smallest of the sorted values with at least a share q of them up to it; NaN if there are none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
