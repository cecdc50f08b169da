package ppo

import (
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/models/fused"
)

// TestAgainstRecurrentPPO goes through two rollouts of 4 steps of 2 environments, with an update
// after each, as RecurrentPPO of sb3-contrib 2.9.2 does with the same first parameters:
// observations, rewards and ends are those of testdata/sb3_lstm.py. The second rollout resumes
// with the state of the first. A minibatch is the whole rollout, and the rotation of
// sb3-contrib's rows is 0.
func TestAgainstRecurrentPPO(t *testing.T) {
	agentstest.CheckSB3(t, "testdata/sb3_lstm.json", map[string]policies.LSTM{
		"separate": {LSTMHiddenSize: 3, NLSTMLayers: 2, EnableCriticLSTM: true},
		"shared":   {LSTMHiddenSize: 3, NLSTMLayers: 1, SharedLSTM: true},
		"dense":    {LSTMHiddenSize: 3, NLSTMLayers: 1},
	}, func(t *testing.T, lstm policies.LSTM) agentstest.SB3Result {
		cfg := RecurrentConfig{Config: small(4, 8), LSTM: lstm}
		cfg.Policy, cfg.NetArch, cfg.NEpochs, cfg.EntCoef = policies.MlpLSTM, []int{2}, 3, 0.01
		cfg.LearningRate, cfg.Gamma, cfg.GAELambda = agents.Constant(0.05), 0.9, 0.8
		l := agentstest.SB3Learner(t, recurrent, cfg, fused.New)
		rollout := agentstest.SB3Rollout{Truncated: [][2]int{{5, 0}}}
		var got agentstest.SB3Result
		for from := 0; from < 8; from += 4 {
			rollout.Play(t, l, from, from+4)
			r := learnedLikeSB3(t, l)
			got.Actions, got.LogProbs = append(got.Actions, r.Actions...), append(got.LogProbs, r.LogProbs...)
			got.Advantages, got.Returns = append(got.Advantages, r.Advantages...), append(got.Returns, r.Returns...)
			got.Metrics, got.Params = r.Metrics, r.Params // of the last
		}
		return got
	})
}
