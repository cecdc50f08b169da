// Package categorical is the masked distribution over Discrete actions: the action of logits
// l among the permitted ones has probability exp(l_a) / Σ exp(l_j) over the permitted j, and
// every other has probability 0.
//
// All functions work in float64 and allocate nothing. A nil or empty mask permits everything; a mask
// that permits nothing is a programmer's mistake and panics.
//
// Source: Huang and Ontañón, "A Closer Look at Invalid Action Masking in Policy Gradient
// Algorithms", arXiv:2006.14171.
package categorical

import (
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/models/vmath"
)

// A Distribution is the distribution of one row of logits at a time. It computes lazily, each quantity
// once, and only for the permitted actions. It is not safe for concurrent use.
type Distribution struct {
	logits []float32
	mask   []bool
	known  known

	n       int       // permitted actions
	index   []int32   // of them, ascending
	whole   bool      // index holds all actions
	logp, p []float64 // of them; logp is first l, later log p
	highest float64   // greatest logit
	lse     float64   // log Σ exp(l - highest)
	entropy float64
}

// known says which quantities of a row are computed.
type known int

const (
	haveLogits known = iota
	haveSum          // lse
	haveProbs        // log p and p
	haveEntropy
)

// New returns a distribution of n actions. Call Condition before all other methods.
func New(n int) *Distribution {
	return &Distribution{index: make([]int32, n), logp: make([]float64, n), p: make([]float64, n)}
}

// Condition reads a row of logits and its mask. Both must not change while the distribution is in
// use.
func (d *Distribution) Condition(row []float32, mask []bool) {
	d.logits, d.mask, d.known = row[:len(d.index)], mask, haveLogits
	d.gather()
	// Comparisons of floats would compile to branches, which are unpredictable here.
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for _, l := range d.logp[:d.n] {
		low, high = min(low, ordered(l)), max(high, ordered(l))
	}
	if d.n > 0 && low == ordered(math.Inf(-1)) {
		d.drop()
	}
	if d.n == 0 {
		panic("categorical: the mask permits no action")
	}
	d.highest = math.Float64frombits(uint64(order(high)))
}

// gather copies the logits of the permitted actions.
func (d *Distribution) gather() {
	if len(d.mask) == 0 {
		for j, l := range d.logits {
			d.logp[j] = float64(l)
		}
		if !d.whole {
			for j := range d.index {
				d.index[j] = int32(j)
			}
		}
		d.n, d.whole = len(d.logits), true
		return
	}
	// Local slices stay in registers. Those of d would be loaded again after each store.
	n, logits := 0, d.logits
	mask, index, logp := d.mask[:len(logits)], d.index[:len(logits)], d.logp[:len(logits)]
	for j, l := range logits {
		index[n], logp[n] = int32(j), float64(l)
		n += one(mask[j])
	}
	d.n, d.whole = n, false
}

// one returns 1 for true, without a branch.
func one(b bool) int {
	var x int
	if b {
		x = 1
	}
	return x
}

// ordered maps floats to integers in the same order. NaN is beyond the infinities.
func ordered(x float64) int64 { return order(int64(math.Float64bits(x))) }

// order maps the bits of a float to an integer in the order of floats. It is its own inverse.
func order(bits int64) int64 { return bits ^ bits>>63&math.MaxInt64 }

// drop removes the actions with a logit of -Inf: their probability is 0, as if masked out.
func (d *Distribution) drop() {
	n := 0
	for i, l := range d.logp[:d.n] {
		if !math.IsInf(l, -1) {
			d.index[n], d.logp[n] = d.index[i], l
			n++
		}
	}
	d.n, d.whole = n, false
}

// normalize computes lse.
func (d *Distribution) normalize() {
	if d.known >= haveSum {
		return
	}
	d.known = haveSum
	e := d.p[:d.n]
	vmath.ShiftedExp(e, d.logp, d.highest)
	total := 0.0
	for _, x := range e {
		total += x
	}
	d.lse = math.Log(total)
}

// weigh computes logp and p.
func (d *Distribution) weigh() {
	d.normalize()
	if d.known < haveProbs {
		d.known = haveProbs
		vmath.ShiftedExp(d.p[:d.n], d.logp, d.lse)
	}
}

// Sample draws an action.
func (d *Distribution) Sample(rng *rand.Rand) int {
	d.weigh()
	u := rng.Float64()
	for i, p := range d.p[:d.n] {
		if u -= p; u < 0 {
			return int(d.index[i])
		}
	}
	return int(d.index[d.n-1]) // the probabilities summed to a little less than 1
}

// Probabilities writes the probability of each action to p.
func (d *Distribution) Probabilities(p []float32) {
	d.weigh()
	clear(p)
	for i, x := range d.p[:d.n] {
		p[d.index[i]] = float32(x)
	}
}

// LogProb returns the logarithm of the probability of an action, -Inf if it is masked out.
func (d *Distribution) LogProb(action int) float64 {
	if !permits(d.mask, action) {
		return math.Inf(-1)
	}
	d.normalize()
	return float64(d.logits[action]) - d.highest - d.lse
}

// Entropy returns -Σ p log p, in nats.
func (d *Distribution) Entropy() float64 {
	if d.known == haveEntropy {
		return d.entropy
	}
	d.weigh()
	h, p := 0.0, d.p[:d.n]
	for i, l := range d.logp[:d.n] {
		h -= p[i] * l
	}
	d.known, d.entropy = haveEntropy, h
	return h
}

// Grad adds to dLogits the gradient with respect to the logits of
// dLogProb·LogProb(action) + dEntropy·Entropy(). Actions masked out get none.
func (d *Distribution) Grad(dLogits []float32, action int, dLogProb, dEntropy float64) {
	h := d.Entropy()
	index, p := d.index[:d.n], d.p[:d.n]
	for i, l := range d.logp[:d.n] {
		g := -dLogProb*p[i] - dEntropy*p[i]*(l+h)
		j := int(index[i])
		if j == action {
			g += dLogProb
		}
		dLogits[j] += float32(g)
	}
}

// Mode returns the permitted action with the highest logit, the first of equals.
func Mode(logits []float32, mask []bool) int {
	best := -1
	for j, l := range logits {
		if permits(mask, j) && (best < 0 || l > logits[best]) {
			best = j
		}
	}
	if best < 0 {
		panic("categorical: the mask permits no action")
	}
	return best
}

func permits(mask []bool, j int) bool { return len(mask) == 0 || mask[j] }
