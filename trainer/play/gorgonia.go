//go:build !nogorgonia

package play

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/graph"
)

func newGorgonia(spec models.Spec, rng *rand.Rand) (Network, error) { return graph.New(spec, rng) }
