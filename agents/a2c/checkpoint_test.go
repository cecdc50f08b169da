package a2c_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/models"
)

// TestWorkersGiveEqualCheckpoints: the bytes of a checkpoint do not depend on the number of workers that share
// sampling, losses and passes.
func TestWorkersGiveEqualCheckpoints(t *testing.T) {
	cfg := tiny()
	cfg.NSteps, cfg.NetArch, cfg.EntCoef = 16, []int{64, 64}, 0.01
	algorithm := agentstest.Algorithm[a2c.Config, *a2c.Learner](a2c.New)
	algorithm.WorkersAgree(t, envcheck.Identity(5), 40, cfg, 3*40*16)
}

// tiny returns a configuration whose rollouts are 8 steps of 2 environments.
func tiny() a2c.Config {
	cfg := a2c.Defaults()
	cfg.NSteps, cfg.NetArch, cfg.TotalTimesteps = 8, []int{4}, 64
	return cfg
}

// TestLoadRefusesAnotherOptimizer: what else Load refuses is tested with PPO, which shares it.
func TestLoadRefusesAnotherOptimizer(t *testing.T) {
	cfg := tiny()
	cfg.UseRMSProp = false
	other := newRun(t, envcheck.Identity(5), 2, cfg, 3)
	other.Train(32)
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
	r.Train(16)
	r.CheckRejects(other.Saved(), models.ErrMismatch, "optimizer.square_avg")
}
