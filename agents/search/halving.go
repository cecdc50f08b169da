package search

import (
	"math/bits"
	"slices"
)

// A Phase visits each of Actions actions Visits times.
type Phase struct{ Actions, Visits int }

// Halving returns the phases of sequential halving: it visits all actions equally often, then the better half, and so
// on until two are left, which share the remaining simulations. The last phase may visit fewer actions, so that the
// visits of all phases add up to simulations, or to one for each action if that is more.
//
// Source: Danihelka, Guez, Schrittwieser and Silver, "Policy improvement by planning with Gumbel", ICLR
// 2022, Figure 1 and Appendix B; Karnin, Koren and Somekh, "Almost Optimal Exploration in Multi-Armed
// Bandits", ICML 2013.
func Halving(actions, simulations int) []Phase {
	if actions <= 1 {
		return []Phase{{actions, simulations}}
	}
	rounds := bits.Len(uint(actions - 1)) // ⌈log2 actions⌉
	var phases []Phase
	for left := max(simulations, actions); left > 0; {
		visits := max(1, simulations/(rounds*actions))
		if visits*actions > left {
			visits, actions = max(1, left/actions), min(actions, left)
		}
		phases = append(phases, Phase{actions, visits})
		left -= visits * actions
		actions = max(2, actions/2)
	}
	return phases
}

// Constants of σ, from the paper.
const (
	visitOffset = 50 // c_visit
	valueScale  = 1  // c_scale
)

// sigma is the paper's σ(q) = (c_visit + max_b N(b)) · c_scale · q, with q in [0, 1].
func sigma(q float64, mostVisits int) float64 {
	return (visitOffset + float64(mostVisits)) * valueScale * q
}

// normalize maps the smallest value to 0 and the greatest to 1; if all are equal, to 0.
func normalize(values []float64) []float64 {
	low, high := slices.Min(values), slices.Max(values)
	out := make([]float64, len(values))
	for i, v := range values {
		if high > low {
			out[i] = (v - low) / (high - low)
		}
	}
	return out
}
