package balance_test

import (
	"testing"
)

// TestWeightedScoresAlone: with one weight, WeightedScores plays as the baseline of that score alone; with the
// weights of KubeDefault as that. TestFirstChoices has those by hand.
func TestWeightedScoresAlone(t *testing.T) {
	none := "WeightedScores:least_allocated=0,balanced_allocation=0,host_spread=0,rack_spread=0,cost="
	opts := map[string]any{"node_types": "mixed", "pods": "mixed", "memory_heavy": 0.25, "lifetime": 600.0, "steps": 200}
	for weighted, same := range map[string]string{
		none + "1": "Greedy",
		"WeightedScores:least_allocated=2,balanced_allocation=0,host_spread=0,rack_spread=0,cost=0": "LeastAllocated",
		"WeightedScores:least_allocated=0,balanced_allocation=1,host_spread=0,rack_spread=0,cost=0": "BalancedAllocation",
		"WeightedScores:least_allocated=1,balanced_allocation=1,host_spread=2,rack_spread=0,cost=0": "KubeDefault",
		"WeightedScores:least_allocated=1,balanced_allocation=1,host_spread=0,rack_spread=2,cost=0": "KubeRackSpread",
	} {
		t.Run(same, func(t *testing.T) {
			v := open(t, 1, opts)
			for seed := range uint64(3) {
				got, want := play(t, v, weighted, seed).EpisodeReturn[0], play(t, v, same, seed).EpisodeReturn[0]
				if got != want {
					t.Errorf("seed %d: %s returns %v, %s %v", seed, weighted, got, same, want)
				}
			}
		})
	}
}
