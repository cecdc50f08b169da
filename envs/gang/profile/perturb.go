package profile

import (
	"math"
	"math/rand/v2"
)

// Perturb returns a profile with errors in the terms of the law: it multiplies each task's durations by a random
// factor, and changes the exponent of the task's shares by a random difference. scale is the standard deviation of the
// factor's logarithm, exponent that of the difference. laws are those of p's tasks. The exponent applies to a share, or to
// the task's c_max if that is less, over the geometric middle of the shares, where it has no effect.
func Perturb(p *Profile, laws []Law, scale, exponent float64, rng *rand.Rand) *Profile {
	perturbed := &Profile{Tasks: p.Tasks, Sizes: p.Sizes, Shares: p.Shares}
	middle := math.Sqrt(p.Shares[0] * p.Shares[len(p.Shares)-1])
	for k, law := range laws {
		factor, power := scale*rng.NormFloat64(), exponent*rng.NormFloat64()
		for i := range p.Sizes {
			for j, share := range p.Shares {
				off := factor - power*math.Log(min(share, 1000*law.CMax)/middle)
				perturbed.Durations = append(perturbed.Durations, p.Duration(k, i, j)*math.Exp(off))
			}
		}
	}
	return perturbed
}
