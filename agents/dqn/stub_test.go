package dqn

import (
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/envs"
)

// small returns a configuration that learns after each step from the first on.
func small() Config {
	cfg := Defaults()
	cfg.BufferSize, cfg.LearningStarts, cfg.TrainFreq, cfg.TotalTimesteps = 100, 0, 1, 1000
	return cfg
}

// stubLearner returns a learner of n environments with observations of one number.
func stubLearner(t *testing.T, cfg Config, actions, n int, net, target *agentstest.Stub) *Learner {
	t.Helper()
	l, err := New(cfg, agentstest.Env(actions, n), agents.Given(net, target), 1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// cycle acts at b and observes b, without an update.
func cycle(t *testing.T, l *Learner, b *envs.Batch) {
	t.Helper()
	if err := l.Act(b, make([]float32, len(b.Reward))); err != nil {
		t.Fatal(err)
	}
	if err := l.Observe(b); err != nil {
		t.Fatal(err)
	}
}
