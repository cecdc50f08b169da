package classic

import "github.com/kubernasium/kubernasium/envs"

func init() {
	envs.Register(&envs.Spec{
		ID:  "classic/CartPole-v1",
		Doc: "Balance a pole on a cart by pushing the cart to the left or to the right; equal to Gymnasium's CartPole-v1.",
		Open: envs.Open(
			func() (o CartPoleOptions) { return o },
			func(o CartPoleOptions) (CartPoleOptions, error) { return o, nil },
			NewCartPole),
		Options:         &CartPoleOptions{},
		MaxEpisodeSteps: 500,
		StepNanos:       30,
		RewardThreshold: 475,
		HasThreshold:    true,
		RenderModes:     []string{"ansi", "rgb_array"},
		Baselines:       baselines,
	})
}
