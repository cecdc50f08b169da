package onpolicy

import (
	"math/bits"

	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Shuffle orders x at random: like Rng.Shuffle, with the same result and the same random numbers, but without the calls
// of an interface for each element.
func (a *Actor) Shuffle(x []int) { shuffle(a.src, x) }

// shuffle is the algorithm of Fisher and Yates as in math/rand/v2, whose integers below n are those of Lemire, "Fast
// Random Integer Generation in an Interval", arXiv:1805.10941.
func shuffle(src *pcg.Source, x []int) {
	s := *src // in registers
	for i := len(x) - 1; i > 0; i-- {
		n := uint64(i + 1)
		word := s.Uint64()
		j := word & (n - 1)
		if n&(n-1) != 0 {
			var low uint64
			j, low = bits.Mul64(word, n)
			if low < n {
				for least := -n % n; low < least; {
					j, low = bits.Mul64(s.Uint64(), n)
				}
			}
		}
		x[i], x[j] = x[j], x[i]
	}
	*src = s
}
