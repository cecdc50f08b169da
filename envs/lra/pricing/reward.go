package pricing

import "github.com/kubernasium/kubernasium/envs"

// outcome returns the reward of filled nodes: the growth of the objective since before, over the containers of the
// batch.
func (t *Task) outcome(before float64, end bool) envs.Outcome {
	earned := (t.ep.Value - before) / float64(len(t.ep.Queue()))
	return envs.Outcome{Reward: t.reward.Pay(earned, end), Terminated: end}
}
