package session

import (
	"math"
	"time"
)

// histogram counts durations in buckets of an eighth of an octave, from 1 ns to 4 h.
type histogram struct {
	n       uint64
	buckets [8 * 44]uint64
}

const (
	bucketBits = 3                  // of the mantissa
	firstOne   = 1023 << bucketBits // bucket number of 1.0 by its bits
)

func (h *histogram) add(d time.Duration) {
	bits := math.Float64bits(max(1, float64(d)))
	i := int(bits>>(52-bucketBits)) - firstOne
	h.buckets[min(i, len(h.buckets)-1)]++
	h.n++
}

// quantile returns the middle of the bucket that holds quantile q, in microseconds.
func (h *histogram) quantile(q float64) float64 {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q * float64(h.n-1))
	for i, k := range h.buckets {
		if rank < k {
			low := math.Float64frombits(uint64(i+firstOne) << (52 - bucketBits))
			high := math.Float64frombits(uint64(i+1+firstOne) << (52 - bucketBits))
			return (low + high) / 2 / 1000
		}
		rank -= k
	}
	return 0
}
