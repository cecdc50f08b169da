// Package imbalance measures how unequal the shares of nodes in use are, and how one more pod changes that.
package imbalance

import "math"

// Rounding is the difference below which costs, in percent, count as equal.
const Rounding = 1e-9

// SD returns the population standard deviation of x, which is not empty.
func SD(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		squares += float64((v - mean) * (v - mean))
	}
	return math.Sqrt(squares / float64(len(x)))
}

// SD4 returns [SD] of each of four slices of equal length, bit by bit, in little more than the time of one: each
// addition of a sum waits for the one before, but the four sums do not wait for one another.
func SD4(x, y, z, w []float64) (sx, sy, sz, sw float64) {
	y, z, w = y[:len(x)], z[:len(x)], w[:len(x)]
	for i := range x {
		sx, sy, sz, sw = sx+x[i], sy+y[i], sz+z[i], sw+w[i]
	}
	n := float64(len(x))
	mx, my, mz, mw := sx/n, sy/n, sz/n, sw/n
	sx, sy, sz, sw = 0, 0, 0, 0
	for i := range x {
		sx += float64((x[i] - mx) * (x[i] - mx))
		sy += float64((y[i] - my) * (y[i] - my))
		sz += float64((z[i] - mz) * (z[i] - mz))
		sw += float64((w[i] - mw) * (w[i] - mw))
	}
	return math.Sqrt(sx / n), math.Sqrt(sy / n), math.Sqrt(sz / n), math.Sqrt(sw / n)
}

// Moments are sums over numbers.
type Moments struct{ n, mean, squares float64 } // squares of differences from the mean

// NewMoments returns the moments of x, which is not empty.
func NewMoments(x []float64) Moments {
	m := Moments{n: float64(len(x))}
	for _, v := range x {
		m.mean += v
	}
	m.mean /= m.n
	for _, v := range x {
		m.squares += (v - m.mean) * (v - m.mean)
	}
	return m
}

// SDWith returns the population standard deviation after adding d to x, one of the numbers.
func (m Moments) SDWith(x, d float64) float64 {
	// Σ(v−μ−d/n)² with x+d in place of x, expanded about the old mean μ.
	return math.Sqrt(max(0, m.squares+2*d*(x-m.mean)+d*d-d*d/m.n) / m.n)
}

// Resource holds the usage of a resource by node, and what a pod adds to the node that it is bound to.
type Resource struct {
	Shares  []float64 // by node
	Added   float64
	Inverse []float64 // by node, 1 over its capacity
}

// Costs writes to dst, for each node, half of the sum over both resources of the standard deviation of the shares in
// percent, with the pod on that node.
func Costs(dst []float64, cpu, memory Resource) {
	c, m := NewMoments(cpu.Shares), NewMoments(memory.Shares)
	for i := range dst {
		dst[i] = 100 * (c.SDWith(cpu.Shares[i], cpu.Added*cpu.Inverse[i]) + m.SDWith(memory.Shares[i], memory.Added*memory.Inverse[i])) / 2
	}
}

// estimate bounds the error of a cost of [Costs].
const estimate = 1000 * Rounding

// Candidates returns which of the nodes that mask permits may have the lowest of [Costs]. Among identical nodes it
// returns the first.
func Candidates(mask []bool, cpu, memory Resource) []bool {
	costs, lowest := make([]float64, len(mask)), math.Inf(1)
	Costs(costs, cpu, memory)
	for i, ok := range mask {
		if ok {
			lowest = min(lowest, costs[i])
		}
	}
	candidates, seen := make([]bool, len(mask)), map[[4]float64]bool{}
	for i, ok := range mask {
		key := [4]float64{cpu.Shares[i], memory.Shares[i], cpu.Inverse[i], memory.Inverse[i]}
		if ok && costs[i] <= lowest+estimate && !seen[key] {
			candidates[i], seen[key] = true, true
		}
	}
	return candidates
}

// Range is a range of shares.
type Range struct{ low, high float64 }

// NewRange returns an empty range.
func NewRange() Range { return Range{math.Inf(1), math.Inf(-1)} }

// Include widens the range to x.
func (r *Range) Include(x float64) {
	if x < r.low {
		r.low = x
	}
	if x > r.high {
		r.high = x
	}
}

// Position returns the position of x in the range: 0 at its low end, 1 at its high end, and 0 if the two differ by no
// more than [Rounding].
func (r *Range) Position(x float64) float64 {
	if width := r.high - r.low; width > Rounding {
		return (x - r.low) / width
	}
	return 0
}

// Scale returns the low end of a range and its width, such that [Range.Position] is (x-low)/width. The width is
// infinite if it is no more than [Rounding].
func (r *Range) Scale() (low, width float64) {
	if width = r.high - r.low; width <= Rounding {
		width = math.Inf(1)
	}
	return r.low, width
}

// Share clips x to [0, 1]: nodes that take pods beyond their capacity appear full. There are a dozen calls for each
// node; min and max take twice as long, since they order NaN and -0.
func Share(x float64) float32 {
	if x <= 0 {
		return 0
	}
	if x > 1 {
		return 1
	}
	return float32(x)
}

// Shares writes to dst the quotients of x and capacity, clipped to [0, 1].
func Shares(dst []float32, x, capacity []float64) {
	for i := range dst {
		dst[i] = Share(x[i] / capacity[i])
	}
}
