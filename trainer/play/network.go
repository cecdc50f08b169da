package play

import (
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// NetworkStream separates the random numbers of a network's initial weights from those of the learner, which
// has the same seed. Its value is arbitrary.
const NetworkStream = 0x6b75_6265

// Engines of networks.
const (
	EngineFused    = "fused"    // explicit kernels: the default
	EngineGorgonia = "gorgonia" // automatic differentiation; tests compare the other engine with it
)

// Network is a network of either engine. Its creator closes it.
type Network interface {
	models.Network
	Close() error
}

// NewNetwork builds a network with an engine. With a nil rng its parameters are zero.
func NewNetwork(engine string, spec models.Spec, rng *rand.Rand) (Network, error) {
	switch engine {
	case EngineFused:
		return fused.New(spec, rng)
	case EngineGorgonia:
		return newGorgonia(spec, rng)
	}
	return nil, fmt.Errorf("no engine %q; there are %s and %s", engine, EngineFused, EngineGorgonia)
}
