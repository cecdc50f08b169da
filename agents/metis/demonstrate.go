package metis

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
)

// EqualSplit returns the published demonstration in k8s/LRAHierarchical-v0, whose observation space is obs. It chooses
// the sub-cluster with the fewest containers; among these, the one with the fewest containers of the application; among
// these, a random one, or in the first episode the first.
func EqualSplit(obs space.Space, seed uint64) Demonstrator {
	shape := obs.(space.Dict).Fields[0].Space.Describe().Shape
	fan, features := shape[0], shape[1]
	rng := rand.New(pcg.New(seed))
	return func(episode int, obs []float32, mask []bool) int {
		app, batch := 0, obs[fan*features:]
		for batch[app] == 0 {
			app++
		}
		best, ties := -1, 0
		for c := range fan {
			if !mask[c] {
				continue
			}
			row := obs[c*features:]
			if best < 0 {
				best, ties = c, 1
				continue
			}
			other := obs[best*features:]
			free, same := row[lra.NumApps]-other[lra.NumApps], row[app]-other[app]
			switch {
			case free > 0 || free == 0 && same < 0:
				best, ties = c, 1
			case free == 0 && same == 0:
				if ties++; episode > 0 && rng.IntN(ties) == 0 {
					best = c
				}
			}
		}
		return best
	}
}
