package world

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/pcg"
)

// baselineSeed seeds the random choices of baselines, the same in each episode.
const baselineSeed = 1

// BaselineRand returns the generator of a baseline's random choices in an episode.
func BaselineRand() *rand.Rand { return rand.New(pcg.New(baselineSeed)) }
