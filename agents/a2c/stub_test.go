package a2c

import (
	"testing"

	"github.com/kubernasium/kubernasium/agents/agentstest"
)

// small returns a configuration with rollouts of that many steps.
func small(steps int) Config {
	cfg := Defaults()
	cfg.NSteps, cfg.TotalTimesteps = steps, 1_000_000
	return cfg
}

// stubLearner returns a learner of n environments with observations of one number.
func stubLearner(t *testing.T, cfg Config, net *agentstest.Stub, n int) *Learner {
	t.Helper()
	l, err := New(cfg, agentstest.Env(net.Actions, n), net, 1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
