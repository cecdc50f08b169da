package profile

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Combinations returns the combinations of 1 to most containers to measure: each application alone, because all
// throughputs are relative to that, and the fraction coverage of the others, in a random order that seed
// determines. A larger coverage extends a smaller one in the same order.
func Combinations(most int, coverage float64, seed uint64) ([]lra.Counts, error) {
	if most < 1 || most > lra.MaxSlots {
		return nil, fmt.Errorf("profile: combinations of up to %d containers, want 1 to %d", most, lra.MaxSlots)
	}
	if !(coverage >= 0 && coverage <= 1) {
		return nil, fmt.Errorf("profile: coverage %v, want 0 to 1", coverage)
	}
	all := alone()
	var others []lra.Counts
	for s := range lra.State(lra.NumStates) {
		if n := s.Total(); n > 1 && n <= most {
			others = append(others, s.Counts())
		}
	}
	rng := rand.New(pcg.New(seed))
	rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	return append(all, others[:int(math.Ceil(coverage*float64(len(others))))]...), nil
}

// WithAlone returns each application alone, and then the combinations of list without these and without
// repeats. It returns an error for an empty combination, or one that no node has room for.
func WithAlone(list []lra.Counts) ([]lra.Counts, error) {
	all, there := alone(), map[lra.Counts]bool{}
	for _, c := range all {
		there[c] = true
	}
	for _, c := range list {
		if _, err := lra.StateOf(c); err != nil {
			return nil, err
		}
		if c.Total() == 0 {
			return nil, fmt.Errorf("profile: a combination of no container")
		}
		if !there[c] {
			there[c] = true
			all = append(all, c)
		}
	}
	return all, nil
}

func alone() []lra.Counts {
	all := make([]lra.Counts, lra.NumApps)
	for a := range all {
		all[a][a] = 1
	}
	return all
}
