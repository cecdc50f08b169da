package recommender

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// Amounts are amounts of both resources.
type Amounts struct {
	MilliCPU    int64 `json:"cpu_m"` // millicores
	MemoryBytes int64 `json:"mem_b"` // bytes
}

// String returns, for example, "250m 262144000B".
func (a Amounts) String() string { return fmt.Sprintf("%dm %dB", a.MilliCPU, a.MemoryBytes) }

// Bounds are the recommended requests, and the range in which the updater does not change requests.
type Bounds struct {
	Lower  Amounts `json:"lower"`
	Target Amounts `json:"target"`
	Upper  Amounts `json:"upper"`
}

// A Recommendation is the entry of a container in the status of a VerticalPodAutoscaler.
type Recommendation struct {
	Bounds
	UncappedTarget Amounts `json:"uncapped_target"` // the target before a policy's limits
}

// An estimator turns the histogram of one resource into its bounds.
type estimator struct {
	axis        axis
	percentiles [3]float64        // lower, target, upper
	amount      [numBuckets]int64 // of a percentile in each bucket, with its margin
	interval    time.Duration     // history for a confidence of 1
	min         int64
	round       int64
}

// newEstimator returns an estimator for buckets in a unit that is scale times that of amounts.
func newEstimator(first, scale, margin float64, config ResourceConfig) estimator {
	e := estimator{
		axis:        newAxis(first, config.HalfLife),
		percentiles: [3]float64{config.LowerPercentile, config.TargetPercentile, config.UpperPercentile},
		interval:    config.ConfidenceInterval,
	}
	for b := range e.amount {
		base := amount(e.axis.end(b) * scale)
		e.amount[b] = base + amount(float64(base)*margin)
	}
	return e
}

// base writes the percentiles with their margin.
func (e *estimator) base(h *histogram, out *[3]int64) {
	if h.empty() {
		*out = [3]int64{}
		return
	}
	var bucket [3]int
	h.percentiles(&e.percentiles, &bucket)
	for k, b := range bucket {
		out[k] = e.amount[b]
	}
}

// finish widens the bounds by the confidence in the history, raises all three to the minimum and
// rounds them.
func (e *estimator) finish(s *State, base *[3]int64) (lower, target, upper int64) {
	// The history in confidence intervals, by its length and by its number of samples, one a minute.
	confidence := math.Min(
		float64(sub(s.last, s.first))/float64(e.interval),
		float64(s.samples)/e.interval.Minutes())
	lower = amount(float64(base[0]) * math.Pow(1+0.001/confidence, -2))
	upper = amount(float64(base[2]) * (1 + 1/confidence))
	return e.format(lower), e.format(base[1]), e.format(upper)
}

func (e *estimator) format(x int64) int64 {
	x = max(x, e.min)
	if e.round != 1 && x != 0 {
		x = int64(math.Ceil(float64(x)/float64(e.round))) * e.round
	}
	return x
}

// Recommend writes the recommendation for s. Before the first sample, all of it is the minimum.
func (s *State) Recommend(rec *Recommendation) {
	cpu, memory := &s.r.cpu, &s.r.memory
	var base [3]int64
	cpu.base(&s.cpu, &base)
	rec.Lower.MilliCPU, rec.Target.MilliCPU, rec.Upper.MilliCPU = cpu.finish(s, &base)
	if !s.memoryKnown {
		memory.base(&s.memory, &s.memoryBounds)
		s.memoryKnown = true
	}
	rec.Lower.MemoryBytes, rec.Target.MemoryBytes, rec.Upper.MemoryBytes = memory.finish(s, &s.memoryBounds)
	rec.UncappedTarget = rec.Target
}

// A Policy holds the limits that a VerticalPodAutoscaler sets on recommendations for a
// container. An amount of 0 sets none.
type Policy struct {
	MinAllowed, MaxAllowed Amounts
	GlobalMaxAllowed       Amounts // the recommender's own maximum, if MaxAllowed sets none
	IntegerCPU             bool    // whole cores (the annotation …_integerCPU)
}

// Apply applies the policy to a recommendation. It rounds all CPU amounts up to whole cores; then it raises target and
// bounds, but not the uncapped target, to the minimum and lowers them to the maximum.
func (p *Policy) Apply(rec *Recommendation) {
	if p.IntegerCPU {
		for _, a := range []*Amounts{&rec.Lower, &rec.Target, &rec.Upper, &rec.UncappedTarget} {
			a.MilliCPU = (a.MilliCPU + 999) / 1000 * 1000
		}
	}
	for _, a := range []*Amounts{&rec.Lower, &rec.Target, &rec.Upper} {
		a.MilliCPU = limit(a.MilliCPU, p.MinAllowed.MilliCPU, p.MaxAllowed.MilliCPU, p.GlobalMaxAllowed.MilliCPU)
		a.MemoryBytes = limit(a.MemoryBytes, p.MinAllowed.MemoryBytes, p.MaxAllowed.MemoryBytes, p.GlobalMaxAllowed.MemoryBytes)
	}
}

func limit(x, low, high, global int64) int64 {
	x = max(x, low)
	high = cmp.Or(high, global)
	if high != 0 {
		x = min(x, high)
	}
	return x
}
