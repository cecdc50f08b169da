package recommender

import (
	"math"
	"math/bits"
	"time"
)

// numBuckets is the number of buckets of both resources: ⌈log_1.05(max·0.05/first + 1)⌉ + 1,
// where max/first is 1e5.
const numBuckets = 176

// bucketGrowth is the relative growth of the buckets' width. It is a variable so that
// 1+bucketGrowth is rounded to a float64 before 1 is subtracted again, as upstream's is.
var bucketGrowth = 0.05

// An axis is the scale of a histogram: buckets of exponentially growing width, and the decay of weights.
type axis struct {
	first    float64 // width of bucket 0
	ratio    float64
	logRatio float64
	halfLife time.Duration
	start    [numBuckets]float64 // lower edges
}

func newAxis(first float64, halfLife time.Duration) axis {
	a := axis{first: first, ratio: 1 + bucketGrowth, halfLife: halfLife}
	a.logRatio = math.Log(a.ratio)
	for b := 1; b < numBuckets; b++ {
		a.start[b] = first * (math.Pow(a.ratio, float64(b)) - 1) / (a.ratio - 1)
	}
	return a
}

// bucket returns the bucket that value falls into; the last one has no upper edge.
func (a *axis) bucket(value float64) int {
	if value < a.first {
		return 0
	}
	b := int(math.Log(value*(a.ratio-1)/a.first+1) / a.logRatio)
	return min(b, numBuckets-1)
}

// end returns the upper edge of a bucket, or the lower edge of the last.
func (a *axis) end(bucket int) float64 { return a.start[min(bucket+1, numBuckets-1)] }

// A histogram holds decaying weights of samples. Old weights do not shrink; new ones grow instead, by a factor of 2 for
// each half-life after the reference. It sums in upstream's order and rounds as upstream does on amd64, which fuses no
// product with a sum.
type histogram struct {
	axis      *axis
	weight    [numBuckets]float64
	total     float64
	low, high int           // first and last bucket that is not empty; numBuckets-1 and 0 if none is
	reference time.Duration // instant at which a sample has its plain weight; never at first
}

func (h *histogram) reset(a *axis) {
	*h = histogram{axis: a, low: numBuckets - 1, reference: never}
}

func (h *histogram) add(value, weight float64, t time.Duration) {
	weight = float64(weight * h.decay(t))
	b := h.axis.bucket(value)
	h.weight[b] += weight
	h.total += weight
	if h.weight[b] >= epsilon {
		h.low = min(h.low, b)
		h.high = max(h.high, b)
	}
}

func (h *histogram) subtract(value, weight float64, t time.Duration) {
	weight = float64(weight * h.decay(t))
	b := h.axis.bucket(value)
	h.total = subtract(h.total, weight)
	h.weight[b] = subtract(h.weight[b], weight)
	h.trim()
}

// subtract returns a-b, or 0 if that is lighter than epsilon.
func subtract(a, b float64) float64 {
	if a -= b; a < epsilon {
		return 0
	}
	return a
}

// trim moves low and high inwards over empty buckets.
func (h *histogram) trim() {
	for h.low < numBuckets-1 && h.weight[h.low] < epsilon {
		h.low++
	}
	for h.high > 0 && h.weight[h.high] < epsilon {
		h.high--
	}
}

func (h *histogram) empty() bool { return h.weight[h.low] < epsilon }

// decay returns the factor of a weight at t. It moves a reference that is too old.
func (h *histogram) decay(t time.Duration) float64 {
	if h.reference == never || t > h.reference+maxDecay*h.axis.halfLife {
		h.shift(t)
	}
	return math.Exp2(float64(t-h.reference) / float64(h.axis.halfLife))
}

// shift moves the reference to the multiple of the half-life nearest to t, and scales the
// weights accordingly.
func (h *histogram) shift(t time.Duration) {
	t = roundInstant(t, h.axis.halfLife)
	exponent := math.Floor(float64(sub(h.reference, t))/float64(h.axis.halfLife) + 0.5)
	factor := math.Ldexp(1, int(exponent))
	for b := h.low; b <= h.high; b++ {
		h.weight[b] *= factor
	}
	h.total *= factor
	h.trim()
	h.reference = t
}

// merge adds the weights of o. It moves the older reference, of h or of o, to the younger one.
func (h *histogram) merge(o *histogram) {
	if h.reference < o.reference {
		h.shift(o.reference)
	} else if o.reference < h.reference {
		o.shift(h.reference)
	}
	for b := o.low; b <= o.high; b++ {
		h.weight[b] += o.weight[b]
	}
	h.total += o.total
	h.low = min(h.low, o.low)
	h.high = max(h.high, o.high)
}

// percentiles writes the buckets of three ascending percentiles; the histogram must not be empty. One pass finds all
// three, since they share their partial sums.
func (h *histogram) percentiles(p *[3]float64, bucket *[3]int) {
	var sum float64
	k, threshold := 0, p[0]*h.total
	b := h.low
	for ; b < h.high; b++ {
		sum += h.weight[b]
		for sum >= threshold {
			bucket[k] = b
			if k++; k == len(p) {
				return
			}
			threshold = p[k] * h.total
		}
	}
	for ; k < len(p); k++ {
		bucket[k] = b
	}
}

const (
	never = time.Duration(math.MinInt64) // before every instant: upstream's zero time, of year 1

	// Within these bounds no sum or difference below overflows: 2·century + year < 2^63 ns, and
	// century + year + maxDecay·year < 2^63 ns.
	year     = 365 * 24 * time.Hour
	century  = 100 * year
	maxCount = 100

	unixYear1 = 62135596800 // seconds from year 1 to the Unix epoch
)

func valid(t time.Duration) bool { return -century <= t && t <= century }

// sub returns a-b, saturated if one of them is never.
func sub(a, b time.Duration) time.Duration {
	switch {
	case a == b:
		return 0
	case a == never:
		return math.MinInt64
	case b == never:
		return math.MaxInt64
	}
	return a - b
}

// roundInstant rounds t half up to a multiple of d since year 1, as [time.Time.Round] does.
func roundInstant(t, d time.Duration) time.Duration {
	if t == never {
		return t
	}
	high, low := bits.Mul64(unixYear1, uint64(time.Second))
	_, offset := bits.Div64(high%uint64(d), low, uint64(d))
	r := (t%d + d) % d // of the Unix time
	if r -= d - time.Duration(offset); r < 0 {
		r += d
	}
	if r < d-r {
		return t - r
	}
	return t + d - r
}
