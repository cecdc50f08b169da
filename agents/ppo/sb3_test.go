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
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models/graph"
)

// sb3Case is what testdata/sb3.py wrote of one configuration.
type sb3Case struct {
	Actions    []float32          `json:"actions"`
	LogProbs   []float32          `json:"log_probs"`
	Advantages []float32          `json:"advantages"`
	Returns    []float32          `json:"returns"`
	Metrics    map[string]float64 `json:"metrics"`
	Params     []float32          `json:"params"`
}

// TestAgainstStableBaselines3 goes through one rollout of 4 steps of 2 environments and one
// update, as MaskablePPO of sb3-contrib 2.9.2 does with the same first parameters: observations,
// masks, rewards and ends are those of testdata/sb3.py. A minibatch is the whole rollout, so
// that the shuffling is of no account.
func TestAgainstStableBaselines3(t *testing.T) {
	text, err := os.ReadFile("testdata/sb3.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]sb3Case
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	configs := map[string]func(*Config){
		"normalized": func(c *Config) { c.EntCoef = 0.01 },
		"value clipped": func(c *Config) {
			c.ClipRangeVf, c.NormalizeAdvantage, c.MaxGradNorm = agents.Constant(0.1), false, 100
		},
		"stopped by target_kl": func(c *Config) { c.TargetKL, c.EntCoef = 0.001, 0.01 },
	}
	if len(cases) != len(configs) {
		t.Errorf("%d cases in sb3.json, want %d", len(cases), len(configs))
	}
	for name, configure := range configs {
		t.Run(name, func(t *testing.T) {
			cfg := small(4, 8)
			cfg.NetArch, cfg.NEpochs = []int{2}, 3
			cfg.LearningRate, cfg.Gamma, cfg.GAELambda = agents.Constant(0.05), 0.9, 0.8
			configure(&cfg)
			compareWithSB3(t, cfg, cases[name])
		})
	}
}

func compareWithSB3(t *testing.T, cfg Config, want sb3Case) {
	t.Helper()
	env := agents.EnvInfo{ID: "toy/Stub-v0", Obs: space.NewBox(-10, 10, 2), Act: space.Discrete{N: 3}, NumEnvs: 2}
	spec, err := NetworkSpec(cfg, env.Obs, env.Act)
	if err != nil {
		t.Fatal(err)
	}
	net, err := graph.New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { net.Close() })
	for k, p := range net.Params() {
		for j := range p.Value {
			p.Value[j] = float32(0.5 * math.Sin(float64(1+j+10*k)))
		}
	}
	l, err := New(cfg, env, net, 1)
	if err != nil {
		t.Fatal(err)
	}
	playSB3(t, l)
	m, err := l.Update()
	if err != nil {
		t.Fatal(err)
	}
	delete(m, "train/learning_rate")
	got := sb3Case{l.Buf.Action, l.Buf.LogProb, l.Buf.Adv, l.Buf.Ret, m, nil}
	for _, p := range net.Params() {
		got.Params = append(got.Params, p.Value...)
	}
	// torch computes in float32 throughout.
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-4, 2e-6)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// playSB3 records the rollout of testdata/sb3.py: environment 0 terminates at t=1 and
// environment 1 is truncated at t=2, in the state (2, −1).
func playSB3(t *testing.T, l *Learner) {
	t.Helper()
	reward := [4][2]float64{{1, -0.5}, {0.5, 2}, {-1, 0}, {1.5, 1}}
	batch := func(t int) *envs.Batch {
		b := agentstest.BatchOf(3, 0, 0)
		b.Obs, b.FinalObs = nil, make([]float32, 4)
		for n := range 2 {
			b.Obs = append(b.Obs, 0.25*float32(t)-0.5*float32(n), 0.5-0.125*float32(t*(n+1)))
			for a := range 3 {
				b.Mask[3*n+a] = t%2 == 0 || a != (t+n)%3
			}
		}
		if t > 0 {
			copy(b.Reward, reward[t-1][:])
		}
		return b
	}
	actions := make([]float32, 2)
	for k := range 4 {
		if err := l.Act(batch(k), actions); err != nil {
			t.Fatal(err)
		}
		next := batch(k + 1)
		next.Terminated[0] = k == 1
		if k == 2 {
			next.Truncated[1] = true
			copy(next.FinalObs[2:], []float32{2, -1})
		}
		if err := l.Observe(next); err != nil {
			t.Fatal(err)
		}
	}
}
