package ppo

import (
	"github.com/kubernasium/kubernasium/agents/agentstest"
)

// small returns a configuration of one minibatch for rollouts of steps rows.
func small(steps, rows int) Config {
	cfg := Defaults()
	cfg.NSteps, cfg.BatchSize, cfg.NEpochs = steps, rows, 1
	cfg.TotalTimesteps = 1_000_000
	return cfg
}

var algorithm = agentstest.Algorithm[Config, *Learner](New)

// stubLearner returns a learner of n environments with observations of one number.
var stubLearner = algorithm.NewStub
