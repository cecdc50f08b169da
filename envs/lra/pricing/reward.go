package pricing

import "github.com/kubernasium/kubernasium/envs"

// outcome pays for filled nodes by how much the objective has grown since it was before, over the
// containers of the batch.
func (t *Task) outcome(before float64, end bool) envs.Outcome {
	earned := (t.ep.Value - before) / float64(len(t.ep.Queue()))
	return envs.Outcome{Reward: t.reward.Pay(earned, end), Terminated: end}
}
