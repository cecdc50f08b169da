// Package categorical is the masked distribution over Discrete actions: the action of logits
// l among the permitted ones has probability exp(l_a) / Σ exp(l_j) over the permitted j, and
// every other has probability 0.
//
// All functions take one row, work in float64 and allocate nothing. A nil or empty mask
// permits everything; a mask that permits nothing is a programmer's mistake and panics.
//
// Source: Huang and Ontañón, "A Closer Look at Invalid Action Masking in Policy Gradient
// Algorithms", arXiv:2006.14171.
package categorical

import (
	"math"
	"math/rand/v2"
)

// LogProbs writes the log-probability of each action to logp, -Inf for those masked out.
func LogProbs(logp []float64, logits []float32, mask []bool) {
	highest := math.Inf(-1)
	for j, l := range logits {
		if permits(mask, j) {
			highest = max(highest, float64(l))
		}
	}
	if math.IsInf(highest, -1) {
		panic("categorical: the mask permits no action")
	}
	sum := 0.0
	for j, l := range logits {
		logp[j] = math.Inf(-1)
		if permits(mask, j) {
			logp[j] = float64(l) - highest
			sum += math.Exp(logp[j])
		}
	}
	lse := math.Log(sum)
	for j := range logits {
		logp[j] -= lse
	}
}

// Sample draws an action from the distribution that LogProbs wrote.
func Sample(rng *rand.Rand, logp []float64) int {
	u, last := rng.Float64(), 0
	for j, l := range logp {
		if math.IsInf(l, -1) {
			continue
		}
		last = j
		if u -= math.Exp(l); u < 0 {
			return j
		}
	}
	return last // the probabilities summed to a little less than 1
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

// Probs writes the probability of each action, exp(logp), to p.
func Probs(p, logp []float64) {
	for j, l := range logp {
		p[j] = 0
		if !math.IsInf(l, -1) {
			p[j] = math.Exp(l)
		}
	}
}

// Entropy returns -Σ p log p of the distribution that LogProbs and Probs wrote, in nats.
func Entropy(logp, p []float64) float64 {
	h := 0.0
	for j, l := range logp {
		if !math.IsInf(l, -1) {
			h -= p[j] * l
		}
	}
	return h
}

// Grad adds to dLogits the gradient with respect to the logits of
// dLogProb·logp[action] + dEntropy·Entropy(logp, p). Actions masked out get none.
func Grad(dLogits []float32, logp, p []float64, action int, dLogProb, dEntropy float64) {
	h := Entropy(logp, p)
	for j, l := range logp {
		if math.IsInf(l, -1) {
			continue
		}
		g := -dLogProb*p[j] - dEntropy*p[j]*(l+h)
		if j == action {
			g += dLogProb
		}
		dLogits[j] += float32(g)
	}
}

func permits(mask []bool, j int) bool { return len(mask) == 0 || mask[j] }
