package classic

import "github.com/kubernasium/kubernasium/envs"

var _ envs.FeatureNamer = (*CartPole)(nil)

// Features implements [envs.FeatureNamer].
func (p *CartPole) Features() []envs.Features {
	return []envs.Features{{Names: []string{"cart_position", "cart_velocity", "pole_angle", "pole_angular_velocity"}}}
}
