package placement

import "github.com/kubernasium/kubernasium/envs"

// outcome returns the reward of a placement: the growth of the objective, over the containers of the batch
// ([world.Episode.Place]). With online arrivals the time limit ends the episode.
func (t *Task) outcome(earned float64, end bool) envs.Outcome {
	return envs.Outcome{Reward: t.reward.Pay(earned, end), Terminated: end && !t.ep.Online()}
}
