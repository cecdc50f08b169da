package classic

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
)

// Clone implements [envs.Cloner].
func (p *CartPole) Clone(*rand.Rand) envs.Task {
	c := *p
	return &c
}
