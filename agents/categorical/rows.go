package categorical

import (
	"math"

	"github.com/kubernasium/kubernasium/models/vmath"
)

// Rows holds the distributions of several rows of logits. It computes them together, so that vectors of exponentials
// and logarithms are full also where there are few actions. Each number is that of a [Distribution] of its row, bit
// for bit. It is not safe for concurrent use.
type Rows struct {
	n       int // actions
	count   int // rows
	out     []float32
	stride  int
	mask    []bool
	start   []int     // of each row in the next three, and of the end
	index   []int32   // permitted actions
	logp, p []float64 // of them; logp is first l, then l - highest
	highest []float64 // of each row
	lse     []float64 // of each row
	entropy []float64 // of each row
}

// NewRows returns the distributions of n actions of at most the given number of rows. Call Condition before all other
// methods.
func NewRows(n, rows int) *Rows {
	f := func(k int) []float64 { return make([]float64, k) }
	return &Rows{
		n: n, start: make([]int, rows+1), index: make([]int32, n*rows+1), logp: f(n*rows + 1), p: f(n * rows),
		highest: f(rows), lse: f(rows), entropy: f(rows),
	}
}

// Condition reads the logits of count rows, which start stride apart in out, and their masks, which follow each other.
// Both must not change while the distributions are in use. It reports whether all permitted logits are finite and each
// row permits an action. If not, no other method may be called; a Distribution handles infinite logits.
func (d *Rows) Condition(out []float32, stride, count int, mask []bool) bool {
	d.out, d.stride, d.count, d.mask = out, stride, count, mask
	var finite bool
	if len(mask) == 0 {
		finite = d.gatherAll(out, stride)
	} else {
		finite = d.gatherPermitted(out, stride, mask)
	}
	if !finite {
		return false
	}
	d.normalize()
	return true
}

// gatherAll reads rows without masks.
func (d *Rows) gatherAll(out []float32, stride int) bool {
	sum, at := 0.0, 0
	for r := range d.count {
		d.start[r] = at
		row := out[r*stride:][:d.n]
		l, index := d.logp[at:][:len(row)], d.index[at:][:len(row)]
		high := float64(row[0])
		for j, x := range row {
			l[j], index[j] = float64(x), int32(j)
			high = max(high, l[j])
			sum += l[j] - l[j] // 0 or NaN
		}
		for j := range l {
			l[j] -= high
		}
		d.highest[r] = high
		at += len(row)
	}
	d.start[d.count] = at
	return sum == 0
}

// gatherPermitted reads rows with masks.
func (d *Rows) gatherPermitted(out []float32, stride int, mask []bool) bool {
	sum, at, empty := 0.0, 0, false
	for r := range d.count {
		d.start[r] = at
		row, permitted := out[r*stride:][:d.n], mask[r*d.n:][:d.n]
		end := at
		for j, x := range row {
			d.index[end], d.logp[end] = int32(j), float64(x)
			end += one(permitted[j])
		}
		l := d.logp[at:end]
		if len(l) == 0 {
			empty = true
			continue
		}
		high := l[0]
		for _, x := range l {
			high = max(high, x)
			sum += x - x
		}
		for j := range l {
			l[j] -= high
		}
		d.highest[r] = high
		at = end
	}
	d.start[d.count] = at
	return sum == 0 && !empty
}

// normalize computes all quantities.
func (d *Rows) normalize() {
	start, lse := d.start[:d.count+1], d.lse[:d.count]
	logp, p := d.logp[:start[d.count]], d.p[:start[d.count]]
	vmath.ShiftedExp(p, logp, 0)
	for r := range lse {
		total := 0.0
		for _, x := range p[start[r]:start[r+1]] {
			total += x
		}
		lse[r] = total
	}
	vmath.Log(lse, lse)
	for r, x := range lse {
		for j := start[r]; j < start[r+1]; j++ {
			logp[j] -= x
		}
	}
	vmath.ShiftedExp(p, logp, 0)
	for r := range lse {
		h := 0.0
		for j := start[r]; j < start[r+1]; j++ {
			h -= p[j] * logp[j]
		}
		d.entropy[r] = h
	}
}

// Sample returns the action of row r that belongs to u, a uniform number of [0, 1).
func (d *Rows) Sample(r int, u float64) int {
	lo, hi := d.start[r], d.start[r+1]
	for i, p := range d.p[lo:hi] {
		if u -= p; u < 0 {
			return int(d.index[lo+i])
		}
	}
	return int(d.index[hi-1]) // the probabilities summed to a little less than 1
}

// LogProb returns the logarithm of the probability of an action of row r, -Inf if it is masked out.
func (d *Rows) LogProb(r, action int) float64 {
	if len(d.mask) > 0 && !d.mask[r*d.n+action] {
		return math.Inf(-1)
	}
	return float64(d.out[r*d.stride+action]) - d.highest[r] - d.lse[r]
}

// Entropy returns -Σ p log p of row r, in nats.
func (d *Rows) Entropy(r int) float64 { return d.entropy[r] }

// Grad adds to dLogits the gradient with respect to the logits of row r of
// dLogProb·LogProb(action) + dEntropy·Entropy(). Actions masked out get none.
func (d *Rows) Grad(r int, dLogits []float32, action int, dLogProb, dEntropy float64) {
	lo, hi := d.start[r], d.start[r+1]
	h, index, p := d.entropy[r], d.index[lo:hi], d.p[lo:hi]
	for i, l := range d.logp[lo:hi] {
		g := -dLogProb*p[i] - dEntropy*p[i]*(l+h)
		j := int(index[i])
		if j == action {
			g += dLogProb
		}
		dLogits[j] += float32(g)
	}
}
