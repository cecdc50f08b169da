package a2c_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/models"
)

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
	before := r.Saved()
	err := r.L.Load(bytes.NewReader(other.Saved()))
	if !errors.Is(err, models.ErrMismatch) || !strings.Contains(err.Error(), "optimizer.square_avg") {
		t.Errorf("error %v, want one that wraps %v and names optimizer.square_avg", err, models.ErrMismatch)
	}
	if !bytes.Equal(before, r.Saved()) {
		t.Error("the learner has changed")
	}
}
