package classic

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Observe implements [envs.Task]. Both actions are always permitted.
func (p *CartPole) Observe(_ *cluster.State, obs []float32, mask []bool) {
	for i, v := range p.state {
		obs[i] = float32(v)
	}
	space.PermitAll(mask)
}
