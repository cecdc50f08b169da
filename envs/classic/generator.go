package classic

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Begin implements [envs.Task]. It takes four outputs of rng.
func (p *CartPole) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	for i := range p.state {
		p.state[i] = pcg.Scale(rng.Uint64(), p.bounds.Low, p.bounds.High)
	}
	p.bounds = defaultBounds
	return nil
}
