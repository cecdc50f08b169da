package placement

import "github.com/kubernasium/kubernasium/envs"

// outcome pays what a placement earned: by how much the objective grew, over the containers of the
// batch ([world.Episode.Place]). With online arrivals the time limit ends the episode.
func (t *Task) outcome(earned float64, end bool) envs.Outcome {
	return envs.Outcome{Reward: t.reward.Pay(earned, end), Terminated: end && !t.ep.Online()}
}
