package play

import (
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// NetworkStream separates the random numbers of a network's first weights from those of the
// learner, which has the same seed. Its value is arbitrary.
const NetworkStream = 0x6b75_6265

// Engines of networks.
const (
	EngineFused    = "fused"    // explicit kernels: the default
	EngineGorgonia = "gorgonia" // automatic differentiation: the oracle of the other
)

// Network is a network of either engine. The caller that makes it closes it.
type Network interface {
	models.Network
	Close() error
}

// NewNetwork builds a network with an engine; a nil rng leaves its parameters zero.
func NewNetwork(engine string, spec models.Spec, rng *rand.Rand) (Network, error) {
	switch engine {
	case EngineFused:
		return fused.New(spec, rng)
	case EngineGorgonia:
		return newGorgonia(spec, rng)
	}
	return nil, fmt.Errorf("no engine %q; there are %s and %s", engine, EngineFused, EngineGorgonia)
}
