package ppo_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// newRun returns a learner in n environments.
var newRun = agentstest.Algorithm[ppo.Config, *ppo.Learner](ppo.New).NewRun

func quick() ppo.Config {
	cfg := ppo.Defaults()
	cfg.NSteps, cfg.BatchSize, cfg.NEpochs = 64, 128, 4
	cfg.LearningRate = agents.Constant(3e-3)
	cfg.NetArch = []int{32}
	cfg.TotalTimesteps = 8192
	return cfg
}

func TestSolvesIdentity(t *testing.T) {
	spec := envcheck.Identity(5)
	r := newRun(t, spec, 8, quick(), 1)
	r.Train(8192)
	if got := r.Evaluate(spec, 10); got < 99 {
		t.Errorf("mean return %v after 8192 steps, want at least 99 of 100", got)
	}
}

func TestLearnsFixedSequence(t *testing.T) {
	spec := envcheck.FixedSequence(4, []int{2, 0, 3, 1, 1, 2})
	cfg := quick()
	cfg.TotalTimesteps = 16384
	r := newRun(t, spec, 8, cfg, 1)
	r.Train(16384)
	if got := r.Evaluate(spec, 1); got != 6 {
		t.Errorf("return %v after 16384 steps, want the optimum, 6", got)
	}
}

func TestCartPole(t *testing.T) {
	if testing.Short() {
		t.Skip("a learning gate of about a minute: run without -short")
	}
	// RL Zoo's tuned hyperparameters, with its budget of 100,000 steps.
	cfg := ppo.Defaults()
	cfg.NSteps, cfg.BatchSize, cfg.NEpochs = 32, 256, 20
	cfg.GAELambda, cfg.Gamma = 0.8, 0.98
	cfg.LearningRate, cfg.ClipRange = agents.Schedule{Initial: 0.001, Linear: true}, agents.Schedule{Initial: 0.2, Linear: true}
	cfg.TotalTimesteps = 100_000
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, spec, 8, cfg, 1)
	r.Train(100_096)
	if got := r.Evaluate(spec, 100); got < 475 {
		t.Errorf("mean return of the last policy over 100 episodes is %v, want at least 475", got)
	}
}

func TestSameSeedSameBits(t *testing.T) {
	agentstest.CheckSeeds(t, 4, func(seed uint64) *agentstest.Run[*ppo.Learner] {
		return newRun(t, envcheck.Identity(5), 4, quick(), seed)
	})
}

func TestResumeEqualsUninterrupted(t *testing.T) {
	for name, norm := range map[string]bool{"plain": false, "normalized": true} {
		t.Run(name, func(t *testing.T) {
			agentstest.CheckResume(t, func(r *agentstest.Run[*ppo.Learner]) { r.Updates(4) }, func(seed uint64) *agentstest.Run[*ppo.Learner] {
				cfg := quick()
				cfg.NormObs, cfg.NormReward = norm, norm
				return newRun(t, envcheck.Identity(5), 4, cfg, seed)
			})
		})
	}
}
