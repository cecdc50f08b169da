package classic

import "github.com/kubernasium/kubernasium/envs"

func init() {
	envs.Register(&envs.Spec{
		ID:  "classic/CartPole-v1",
		Doc: "Balance a pole on a cart by pushing the cart to the left or to the right; equal to Gymnasium's CartPole-v1.",
		Open: func(opts map[string]any) (envs.Maker, error) {
			var cfg CartPoleOptions
			if err := envs.DecodeOptions(opts, &cfg); err != nil {
				return nil, err
			}
			return func() (envs.Task, error) { return NewCartPole(cfg), nil }, nil
		},
		Options:         &CartPoleOptions{},
		MaxEpisodeSteps: 500,
		StepNanos:       60,
		RewardThreshold: 475,
		HasThreshold:    true,
		RenderModes:     []string{"ansi", "rgb_array"},
		Baselines:       baselines,
	})
}
