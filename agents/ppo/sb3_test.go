package ppo

import (
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/models/graph"
)

// TestAgainstStableBaselines3 goes through one rollout of 4 steps of 2 environments and one
// update, as MaskablePPO of sb3-contrib 2.9.2 does with the same first parameters: observations,
// masks, rewards and ends are those of testdata/sb3.py. A minibatch is the whole rollout, so
// that the shuffling is of no account.
func TestAgainstStableBaselines3(t *testing.T) {
	agentstest.CheckSB3(t, "testdata/sb3.json", map[string]func(*Config){
		"normalized": func(c *Config) { c.EntCoef = 0.01 },
		"value clipped": func(c *Config) {
			c.ClipRangeVf, c.NormalizeAdvantage, c.MaxGradNorm = agents.Constant(0.1), false, 100
		},
		"stopped by target_kl": func(c *Config) { c.TargetKL, c.EntCoef = 0.001, 0.01 },
	}, func(t *testing.T, configure func(*Config)) agentstest.SB3Result {
		cfg := small(4, 8)
		cfg.NetArch, cfg.NEpochs = []int{2}, 3
		cfg.LearningRate, cfg.Gamma, cfg.GAELambda = agents.Constant(0.05), 0.9, 0.8
		configure(&cfg)
		l := agentstest.SB3Learner(t, algorithm, cfg, graph.New)
		masked := agentstest.SB3Rollout{Mask: func(t, n, action int) bool { return t%2 == 0 || action != (t+n)%3 }}
		masked.Play(t, l, 0, 4)
		return learnedLikeSB3(t, l)
	})
}

// learnedLikeSB3 makes an update and returns what it was made from and what came of it.
func learnedLikeSB3(t *testing.T, l *Learner) agentstest.SB3Result {
	t.Helper()
	m, err := l.Update()
	if err != nil {
		t.Fatal(err)
	}
	delete(m, "train/learning_rate")
	return agentstest.SB3Result{
		Actions: l.collector.Buf.Action, LogProbs: l.collector.Buf.LogProb, Advantages: l.collector.Buf.Adv, Returns: l.collector.Buf.Ret,
		Metrics: m, Params: agentstest.Flat(l.actor.Params),
	}
}
