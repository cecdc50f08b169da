package classic

import (
	"context"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

var baselines = []envs.Baseline{
	{
		Name: "lean",
		Doc:  "Pushes to the side that the pole leans to.",
		New:  cartPolePolicy(func(s [4]float64) bool { return s[posTheta] > 0 }),
	},
	{
		Name: "pole-angle",
		Doc:  "Pushes to the side that the pole will lean to in half a second at its present angular velocity.",
		New:  cartPolePolicy(func(s [4]float64) bool { return s[posTheta]+float64(0.5*s[velTheta]) > 0 }),
	},
}

// cartPolePolicy makes a baseline of a function that reports, by the state, whether to push to the
// right.
func cartPolePolicy(right func(state [4]float64) bool) func(envs.Task) (envs.Policy, error) {
	return envs.ForTask("classic: baseline of *CartPole", func(p *CartPole) (envs.Policy, error) {
		return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
			action[0] = 0
			if right(p.state) {
				action[0] = 1
			}
			return nil
		}, nil
	})
}
