package play

import "fmt"

// First seeds of episodes. Training seeds are the user's, from 0 up. The evaluations that choose the best model
// during a training have other seeds; so does the choice among tuned parameters, and so do comparisons. Thus no
// reported figure is selected on the episodes that measure it. Comparisons during an agent's development
// select, too. Final results therefore use the sealed block, which each set of policies plays once (see
// [CompareConfig]).
const (
	EvalSeed    = 1_000_000_000 // validation
	CompareSeed = 2_000_000_000 // test
	SealedSeed  = 3_000_000_000 // sealed block, up to sealedEnd
	sealedEnd   = 4_000_000_000
)

// CheckSeed returns an error if one of the n seeds from first on is in the sealed block.
func CheckSeed(first uint64, n int) error {
	if last := first + uint64(max(n, 1)) - 1; first < sealedEnd && last >= SealedSeed || last < first {
		return fmt.Errorf("seeds %d to %d reach into the sealed block, from %d to %d, which only trainer compare --sealed FILE plays",
			first, last, uint64(SealedSeed), uint64(sealedEnd)-1)
	}
	return nil
}
