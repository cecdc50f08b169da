package ppo

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs/space"
)

// TestAgainstRecurrentPPO goes through two rollouts of 4 steps of 2 environments, with an update
// after each, as RecurrentPPO of sb3-contrib 2.9.2 does with the same first parameters:
// observations, rewards and ends are those of testdata/sb3_lstm.py. The second rollout goes on
// with the state of the first. A minibatch is the whole rollout, and the rotation of
// sb3-contrib's rows is 0.
func TestAgainstRecurrentPPO(t *testing.T) {
	text, err := os.ReadFile("testdata/sb3_lstm.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]sb3Case
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	lstms := map[string]policies.LSTM{
		"separate": {LSTMHiddenSize: 3, NLSTMLayers: 2, EnableCriticLSTM: true},
		"shared":   {LSTMHiddenSize: 3, NLSTMLayers: 1, SharedLSTM: true},
		"dense":    {LSTMHiddenSize: 3, NLSTMLayers: 1},
	}
	if len(cases) != len(lstms) {
		t.Errorf("%d cases in sb3_lstm.json, want %d", len(cases), len(lstms))
	}
	for name, lstm := range lstms {
		t.Run(name, func(t *testing.T) {
			got := playRecurrentSB3(t, lstm)
			// torch computes in float32 throughout.
			if diff := cmp.Diff(cases[name], got, cmpopts.EquateApprox(1e-4, 2e-6)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func playRecurrentSB3(t *testing.T, lstm policies.LSTM) sb3Case {
	t.Helper()
	cfg := RecurrentConfig{Config: small(4, 8), LSTM: lstm}
	cfg.Policy, cfg.NetArch, cfg.NEpochs, cfg.EntCoef = policies.MlpLSTM, []int{2}, 3, 0.01
	cfg.LearningRate, cfg.Gamma, cfg.GAELambda = agents.Constant(0.05), 0.9, 0.8
	env := agents.EnvInfo{ID: "toy/Stub-v0", Obs: space.NewBox(-10, 10, 2), Act: space.Discrete{N: 3}, NumEnvs: 2}
	spec, err := RecurrentNetworkSpec(cfg, env.Obs, env.Act)
	if err != nil {
		t.Fatal(err)
	}
	net := agentstest.Network(t, spec, 1)
	for k, p := range net.Params() {
		for j := range p.Value {
			p.Value[j] = float32(0.5 * math.Sin(float64(1+j+10*k)))
		}
	}
	l, err := NewRecurrent(cfg, env, net, 1)
	if err != nil {
		t.Fatal(err)
	}
	reward := [4][2]float64{{1, -0.5}, {0.5, 2}, {-1, 0}, {1.5, 1}}
	b := agentstest.BatchOf(3, 0, 0)
	b.Obs, b.FinalObs = make([]float32, 4), make([]float32, 4)
	observe := func(t int) {
		for n := range 2 {
			b.Obs[2*n], b.Obs[2*n+1] = 0.25*float32(t)-0.5*float32(n), 0.5-0.125*float32(t*(n+1))
		}
	}
	observe(0)
	var got sb3Case
	actions := make([]float32, 2)
	for k := range 8 {
		if err := l.Act(b, actions); err != nil {
			t.Fatal(err)
		}
		observe(k + 1)
		copy(b.Reward, reward[k%4][:])
		b.Terminated[0] = k == 1
		b.Truncated[0], b.Truncated[1] = k == 5, k == 2
		copy(b.FinalObs, []float32{2, -1, 2, -1})
		b.EpisodeLength[0], b.EpisodeLength[1] = 1, 1 // what matters is that it is not 0
		if err := l.Observe(b); err != nil {
			t.Fatal(err)
		}
		if !l.Buf.Full() {
			continue
		}
		m, err := l.Update()
		if err != nil {
			t.Fatal(err)
		}
		delete(m, "train/learning_rate")
		got.Metrics = m // of the last
		got.Actions, got.LogProbs = append(got.Actions, l.Buf.Action...), append(got.LogProbs, l.Buf.LogProb...)
		got.Advantages, got.Returns = append(got.Advantages, l.Buf.Adv...), append(got.Returns, l.Buf.Ret...)
	}
	for _, p := range net.Params() {
		got.Params = append(got.Params, p.Value...)
	}
	return got
}
