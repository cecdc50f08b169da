package dqn_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// newRun returns a learner in n environments.
func newRun(t *testing.T, spec *envs.Spec, n int, cfg dqn.Config, seed uint64) *agentstest.Run[*dqn.Learner] {
	t.Helper()
	return agentstest.NewRun(t, spec, n, seed, func(env agents.EnvInfo, seed uint64) (*dqn.Learner, error) {
		return dqn.New(cfg, env, agentstest.Networks(t, seed), seed)
	})
}

func quick() dqn.Config {
	cfg := dqn.Defaults()
	cfg.LearningRate = agents.Constant(3e-3)
	cfg.BufferSize, cfg.TargetUpdateInterval, cfg.TrainFreq = 5000, 200, 1
	cfg.NetArch = []int{32}
	cfg.ExplorationFraction = 0.5
	cfg.TotalTimesteps = 8000
	return cfg
}

// variants are the options of the algorithm.
var variants = map[string]func(*dqn.Config){
	"plain":       func(*dqn.Config) {},
	"double":      func(c *dqn.Config) { c.DoubleQ = true },
	"dueling":     func(c *dqn.Config) { c.Dueling = true },
	"n-step":      func(c *dqn.Config) { c.NSteps = 3 },
	"prioritized": func(c *dqn.Config) { c.PrioritizedReplay = true },
	"soft target": func(c *dqn.Config) { c.Tau, c.TargetUpdateInterval = 0.05, 8 },
	"everything": func(c *dqn.Config) {
		c.DoubleQ, c.Dueling, c.NSteps, c.PrioritizedReplay, c.GradientSteps = true, true, 3, true, 2
	},
}

func TestSolvesIdentity(t *testing.T) {
	spec := envcheck.Identity(5)
	r := newRun(t, spec, 8, quick(), 1)
	r.Train(8000)
	if got := r.Evaluate(spec, 10); got < 99 {
		t.Errorf("mean return %v after 8000 steps, want at least 99 of 100", got)
	}
}

func TestLearnsFixedSequence(t *testing.T) {
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "n-step" && name != "everything" {
				t.Skip("run without -short")
			}
			spec, cfg := envcheck.FixedSequence(4, []int{2, 0, 3, 1, 1, 2}), quick()
			change(&cfg)
			r := newRun(t, spec, 8, cfg, 1)
			r.Train(8000)
			if got := r.Evaluate(spec, 1); got != 6 {
				t.Errorf("return %v after 8000 steps, want the optimum, 6", got)
			}
		})
	}
}

// TestSameSeedSameBits: after learning_starts, 100 of 1000 timesteps, each step of the 4
// environments has an update.
func TestSameSeedSameBits(t *testing.T) {
	agentstest.CheckSeeds(t, 225, func(seed uint64) *agentstest.Run[*dqn.Learner] {
		return newRun(t, envcheck.Identity(5), 4, quick(), seed)
	})
}

// TestResumeEqualsUninterrupted breaks off in the middle of episodes and 125 steps of the
// environments after the first, one step after the last update. The replay buffer is overwritten
// before and after the break.
func TestResumeEqualsUninterrupted(t *testing.T) {
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			agentstest.CheckResume(t, func(r *agentstest.Run[*dqn.Learner]) { r.Train(500) }, func(seed uint64) *agentstest.Run[*dqn.Learner] {
				cfg := quick()
				change(&cfg)
				cfg.BufferSize, cfg.TrainFreq = 300, 3
				return newRun(t, envcheck.Identity(5), 4, cfg, seed)
			})
		})
	}
}
