package profile

import (
	"math"
	"math/rand/v2"
)

// Wrong returns a profile that is off by the law's terms: each task's durations by a factor, and its exponent
// of shares by a difference, that are drawn. scale is the standard deviation of the factor's logarithm and exponent that of
// the difference. laws are those of p's tasks. At the middle of the shares, the geometric one, the exponent changes
// nothing.
func Wrong(p *Profile, laws []Law, scale, exponent float64, rng *rand.Rand) *Profile {
	wrong := &Profile{Tasks: p.Tasks, Sizes: p.Sizes, Shares: p.Shares}
	middle := math.Sqrt(p.Shares[0] * p.Shares[len(p.Shares)-1])
	for k, law := range laws {
		factor, power := scale*rng.NormFloat64(), exponent*rng.NormFloat64()
		for i := range p.Sizes {
			for j, share := range p.Shares {
				off := factor - power*math.Log(min(share, 1000*law.CMax)/middle)
				wrong.Durations = append(wrong.Durations, p.Duration(k, i, j)*math.Exp(off))
			}
		}
	}
	return wrong
}
