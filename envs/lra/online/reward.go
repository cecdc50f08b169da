package online

import "github.com/kubernasium/kubernasium/envs"

// outcome returns the reward of a placement ([world.Episode.Place]). The time limit ends the episode.
func (t *Task) outcome(earned float64, end bool) envs.Outcome {
	return envs.Outcome{Reward: t.reward.Pay(earned, end)}
}
