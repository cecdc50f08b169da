package ppo_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/envs"
)

// TestWorkersGiveEqualCheckpoints: the bytes of a checkpoint do not depend on the number of workers that share
// sampling, gathering, losses, passes, Adam's steps, advantages and the environments' steps.
func TestWorkersGiveEqualCheckpoints(t *testing.T) {
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name                  string
		envs, nSteps, batch   int
		arch                  []int
		layerNorm, normalized bool
	}{
		{"minibatches of 64", 8, 64, 64, []int{64, 64}, false, false},
		{"256", 8, 64, 256, []int{64, 64}, false, true},
		{"1024", 64, 32, 1024, []int{64, 64}, false, false},
		{"1024, layer norms", 64, 32, 1024, []int{64, 64}, true, false},
		{"5120, many environments", 640, 16, 5120, []int{64, 64}, false, false},
		{"128, many parameters", 8, 32, 128, []int{200, 200}, false, false},
	} {
		cfg := ppo.Defaults()
		cfg.NSteps, cfg.BatchSize, cfg.NEpochs, cfg.EntCoef = tc.nSteps, tc.batch, 2, 0.01
		cfg.NetArch, cfg.LayerNorm, cfg.NormObs = tc.arch, tc.layerNorm, tc.normalized
		cfg.TotalTimesteps = 1_000_000
		t.Run(tc.name, func(t *testing.T) {
			algorithm := agentstest.Algorithm[ppo.Config, *ppo.Learner](ppo.New)
			algorithm.WorkersAgree(t, spec, tc.envs, cfg, 2*tc.envs*tc.nSteps)
		})
	}
}

// TestRecurrentWorkersGiveEqualCheckpoints: likewise with LSTMs, whose passes workers share by environments and columns.
func TestRecurrentWorkersGiveEqualCheckpoints(t *testing.T) {
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	cfg := ppo.RecurrentDefaults()
	cfg.NSteps, cfg.BatchSize, cfg.NEpochs, cfg.TotalTimesteps = 16, 320, 2, 1_000_000
	cfg.LSTMHiddenSize, cfg.NLSTMLayers = 48, 2
	recurrent := agentstest.Algorithm[ppo.RecurrentConfig, *ppo.Learner](ppo.NewRecurrent)
	recurrent.WorkersAgree(t, spec, 40, cfg, 2*40*16)
}
