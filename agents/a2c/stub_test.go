package a2c

import (
	"github.com/kubernasium/kubernasium/agents/agentstest"
)

// small returns a configuration with rollouts of that many steps.
func small(steps int) Config {
	cfg := Defaults()
	cfg.NSteps, cfg.TotalTimesteps = steps, 1_000_000
	return cfg
}

var algorithm = agentstest.Algorithm[Config, *Learner](New)

// stubLearner returns a learner of n environments with observations of one number.
var stubLearner = algorithm.NewStub
