package imbalance

import "math"

// OriginalReward is the reward of the source, for comparison with its runs. Let u be the requested share of CPU before
// the bind, of each worker and of a control plane that is always empty, s the population standard deviation of u, and q
// = s/(1+s):
//
//	base   = 1 − 2q
//	reward = max(−base, −1)     if the node is that of the previous pod
//	reward = base / sqrt(count) else; count binds to the node so far, this one included
//
// rounded to four decimals. It depends on the node only by the two counts, which the source never resets;
// [OriginalReward.Reset] is for a new run.
//
// Source: AAML (A. Sheller), commit 7e32dfa.
type OriginalReward struct {
	count []int
	last  int
	all   []float64 // scratch: shares of the workers and of the control plane
}

// NewOriginalReward returns the reward for a cluster of n workers.
func NewOriginalReward(n int) *OriginalReward {
	return &OriginalReward{count: make([]int, n), last: -1}
}

// Reset forgets all pods bound so far.
func (r *OriginalReward) Reset() {
	clear(r.count)
	r.last = -1
}

// CopyFrom makes r equal to from, which must have as many workers.
func (r *OriginalReward) CopyFrom(from *OriginalReward) {
	copy(r.count, from.count)
	r.last = from.last
}

// Score returns the reward of binding the next pod to node; shares are the requested parts of the workers' CPU before
// the bind. It allocates only at its first call.
func (r *OriginalReward) Score(shares []float64, node int) float64 {
	r.all = append(append(r.all[:0], shares...), 0)
	base := OriginalBase(r.all)
	r.count[node]++
	reward := base / math.Sqrt(float64(r.count[node]))
	if node == r.last {
		reward = max(-base, -1)
	}
	r.last = node
	return math.Round(reward*1e4) / 1e4
}

// OriginalBase returns 1 − 2q with q = s/(1+s) and s the population standard deviation of the
// shares of all nodes.
func OriginalBase(shares []float64) float64 {
	s := SD(shares)
	return 1 - 2*s/(1+s)
}
