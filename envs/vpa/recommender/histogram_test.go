package recommender

import (
	"math"
	"testing"
	"time"
)

// The tables below restate upstream's unit tests (its linear buckets i, from i to i+1, are our
// buckets i here), and values computed for its two exponential histograms.

const day = 24 * time.Hour

func axes() (cpu, memory axis) { return newAxis(0.01, day), newAxis(1e7, day) }

func TestBucketEdges(t *testing.T) {
	cpu, memory := axes()
	for _, c := range []struct {
		bucket      int
		cpu, memory float64
	}{
		{0, 0, 0}, {1, 0.01, 10000000}, {2, 0.0205, 20500000}, {3, 0.031525, 31525000},
		{10, 0.1257789253554883, 125778925.355}, {20, 0.3306595410288841, 330659541.029},
		{50, 2.093479957150738, 2093479957.151}, {100, 26.10025156926078, 26100251569.261},
		{150, 301.3954992106095, 301395499210.610}, {174, 972.4756275284428, 972475627528.443},
		{175, 1021.109408904865, 1021109408904.865},
	} {
		// 1e-14: they were computed with C's pow, whose last digit differs from that of Go's.
		if got := cpu.start[c.bucket]; math.Abs(got-c.cpu) > 1e-14*c.cpu {
			t.Errorf("CPU bucket %d starts at %v, want %v", c.bucket, got, c.cpu)
		}
		if got := memory.start[c.bucket]; math.Abs(got-c.memory) > 0.0005+1e-14*c.memory {
			t.Errorf("memory bucket %d starts at %v, want %v", c.bucket, got, c.memory)
		}
	}
}

func TestFindBucket(t *testing.T) {
	cpu, memory := axes()
	for _, c := range []struct {
		axis   *axis
		value  float64
		bucket int
		end    float64
	}{
		{&cpu, 0, 0, 0.01}, {&cpu, 0.0099, 0, 0.01}, {&cpu, 0.01, 1, 0.0205}, {&cpu, 0.025, 2, 0.031525},
		{&cpu, 0.1, 8, 0.110265643}, {&cpu, 0.5, 25, 0.511134538}, {&cpu, 1, 36, 1.016281389},
		{&cpu, 2, 49, 2.093479957}, {&cpu, 4, 62, 4.124698514}, {&cpu, 64, 118, 66.259425841},
		{&cpu, 1000, 174, 1021.109409}, {&cpu, 5000, 175, 1021.109409}, {&cpu, 1e12, 175, 1021.109409},
		{&memory, 1e6, 0, 1e7}, {&memory, 1e7, 1, 20500000}, {&memory, 256 << 20, 17, 281323846.738},
		{&memory, 512 << 20, 26, 546691264.468}, {&memory, 1e9, 36, 1016281388.554}, {&memory, 1 << 30, 37, 1077095457.982},
		{&memory, 2e9, 49, 2093479957.151}, {&memory, 5000 << 20, 67, 5319532976.964},
		{&memory, 1e12, 174, 1021109408904.865}, {&memory, 5e12, 175, 1021109408904.865},
	} {
		got := c.axis.bucket(c.value)
		if got != c.bucket || math.Abs(c.axis.end(got)-c.end) > 5e-10+1e-9*c.end { // as many digits as given
			t.Errorf("%v is in bucket %d that ends at %v, want %d and %v", c.value, got, c.axis.end(got), c.bucket, c.end)
		}
	}
}

// A sample is one of a linear histogram's with buckets of width 1.
type sample struct {
	bucket int
	weight float64
	at     time.Duration
}

// build returns a histogram with a half-life of 1 h, and samples in the middle of their buckets.
func build(samples ...sample) *histogram {
	a := newAxis(0.01, time.Hour)
	h := new(histogram)
	h.reset(&a)
	for _, s := range samples {
		h.add(h.middle(s.bucket), s.weight, 1234567890*time.Second+s.at)
	}
	return h
}

func (h *histogram) middle(bucket int) float64 {
	return (h.axis.start[bucket] + h.axis.start[bucket+1]) / 2
}

// percentile returns the number of the bucket that begins where the percentile's bucket ends: a
// linear histogram's percentile.
func (h *histogram) percentile(p float64) int {
	var b [3]int
	h.percentiles(&[3]float64{p, p, p}, &b)
	return b[0] + 1
}

func TestPercentiles(t *testing.T) {
	const h = time.Hour
	old := []sample{{1, 1, 0}, {2, 2, h}, {3, 3, 2 * h}, {4, 4, 3 * h}}
	same := []sample{{1, 1, 0}, {2, 2, 0}, {3, 3, 0}, {4, 4, 0}}
	for _, c := range []struct {
		name    string
		samples []sample
		want    map[float64]int
	}{
		{"weights 1 to 4", same, map[float64]int{
			0: 2, 0.1: 2, 0.2: 3, 0.3: 3, 0.4: 4, 0.5: 4, 0.6: 4, 0.7: 5, 0.8: 5, 0.9: 5, 1: 5}},
		{"weights 1 to 4 an hour apart", old, map[float64]int{
			0: 2, 0.02: 2, 0.03: 3, 0.10: 3, 0.11: 4, 0.34: 4, 0.35: 5, 1: 5}},
		{"heavy and old", []sample{{2, 1000, 0}, {1, 1, 20 * h}}, map[float64]int{0.999: 2, 1: 3}},
		{"dropped by renormalisation", []sample{{2, 1, 0}, {1, 1, 101 * h}}, map[float64]int{1: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			hist := build(c.samples...)
			for p, want := range c.want {
				if got := hist.percentile(p); got != want {
					t.Errorf("percentile %v = %d, want %d", p, got, want)
				}
			}
		})
	}
	// Three at once give the same as each alone.
	hist := build(same...)
	var b [3]int
	hist.percentiles(&[3]float64{0.1, 0.3, 0.9}, &b)
	if want := [3]int{1, 2, 4}; b != want {
		t.Errorf("percentiles 0.1, 0.3, 0.9 in buckets %v, want %v", b, want)
	}
}

func TestMergeHistograms(t *testing.T) {
	const h = time.Hour
	for _, c := range []struct{ a, b []sample }{
		{[]sample{{1, 1, 0}, {2, 1, h}}, []sample{{2, 1, 2 * h}, {3, 1, h}}},
		{[]sample{{1, 1, 0}, {2, 1, h}}, []sample{{2, 1, 150 * h}, {3, 1, 149 * h}}}, // b's reference is later
		{[]sample{{1, 1, 150 * h}}, []sample{{2, 1, h}}},
		{nil, []sample{{2, 1, h}}},
		{[]sample{{2, 1, h}}, nil},
		{nil, nil},
	} {
		got := build(c.a...)
		got.merge(build(c.b...))
		want := build(append(append([]sample(nil), c.a...), c.b...)...)
		if got.low != want.low || got.high != want.high {
			t.Errorf("%v and %v: buckets %d to %d, want %d to %d", c.a, c.b, got.low, got.high, want.low, want.high)
		}
		// Samples in another order may have set another reference.
		factor := math.Exp2((want.reference - got.reference).Hours())
		for b := got.low; b <= got.high; b++ {
			if w := want.weight[b] * factor; math.Abs(got.weight[b]-w) > 1e-15*w {
				t.Errorf("%v and %v: bucket %d weighs %v, want %v", c.a, c.b, b, got.weight[b], w)
			}
		}
	}
}

func TestEmptyHistogram(t *testing.T) {
	h := build()
	if !h.empty() {
		t.Error("a new histogram is not empty")
	}
	at := h.axis.halfLife * 1000
	v := h.middle(2)
	for _, c := range []struct {
		change func(value, weight float64, t time.Duration)
		weight float64
		empty  bool
	}{
		{h.add, 2.5, false}, {h.subtract, 1, false}, {h.subtract, 1, true},
	} {
		if c.change(v, c.weight*epsilon, at); h.empty() != c.empty {
			t.Errorf("after a change by %v ε: empty %v, want %v", c.weight, h.empty(), c.empty)
		}
	}
	h.add(v, 3*epsilon, at)
	if h.add(h.middle(5), 0.3*epsilon, at); h.empty() {
		t.Error("3 ε and 0.3 ε elsewhere: empty")
	}
}

// Go's own rounding of calendar times is the reference: upstream uses it.
func TestRoundInstant(t *testing.T) {
	for _, d := range []time.Duration{1, 7, time.Second, 7 * time.Hour, day, 100*day + 12345, year} {
		for _, i := range []time.Duration{-century, -1, 0, 1, d / 2, d - d/2, 1704067200*time.Second + 12345, 12*time.Hour - 1, 12 * time.Hour, century} {
			want := time.Duration(time.Unix(0, int64(i)).Round(d).UnixNano())
			if got := roundInstant(i, d); got != want {
				t.Errorf("roundInstant(%d, %v) = %d, want %d", i, d, got, want)
			}
		}
	}
}
