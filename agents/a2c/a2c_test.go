package a2c_test

import (
	"os"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// newRun returns a learner in n environments.
var newRun = agentstest.Algorithm[a2c.Config, *a2c.Learner](a2c.New).NewRun

func quick() a2c.Config {
	cfg := a2c.Defaults()
	cfg.LearningRate = agents.Constant(3e-3)
	cfg.NetArch = []int{32}
	cfg.TotalTimesteps = 16_000
	return cfg
}

func TestSolvesIdentity(t *testing.T) {
	for name, rmsprop := range map[string]bool{"RMSprop": true, "Adam": false} {
		spec, cfg := envcheck.Identity(5), quick()
		cfg.UseRMSProp = rmsprop
		r := newRun(t, spec, 8, cfg, 1)
		r.Train(16_000)
		if got := r.Evaluate(spec, 10); got < 99 {
			t.Errorf("%s: mean return %v after 16,000 steps, want at least 99 of 100", name, got)
		}
	}
}

func TestLearnsFixedSequence(t *testing.T) {
	spec, cfg := envcheck.FixedSequence(4, []int{2, 0, 3, 1, 1, 2}), quick()
	cfg.EntCoef = 0.01
	r := newRun(t, spec, 8, cfg, 1)
	r.Train(16_000)
	if got := r.Evaluate(spec, 1); got != 6 {
		t.Errorf("return %v after 16,000 steps, want the optimum, 6", got)
	}
}

// TestCartPole is a learning gate: RL Zoo's tuned hyperparameters and budget, 100 evaluation
// episodes of the last policy. It trains one seed, or five with KUBERNASIUM_LEARNING=1.
func TestCartPole(t *testing.T) {
	if testing.Short() {
		t.Skip("a learning gate of half a minute: run without -short")
	}
	seeds := 1
	if os.Getenv("KUBERNASIUM_LEARNING") != "" {
		seeds = 5
	}
	cfg := a2c.Defaults()
	cfg.TotalTimesteps = 500_000
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	solved := 0
	for seed := range uint64(seeds) {
		r := newRun(t, spec, 8, cfg, seed+1)
		r.Train(cfg.TotalTimesteps)
		got := r.Evaluate(spec, 100)
		t.Logf("seed %d: mean return %v", seed+1, got)
		if got >= 475 {
			solved++
		}
	}
	if want := max(1, seeds-1); solved < want {
		t.Errorf("%d of %d seeds reach a mean return of 475, want at least %d", solved, seeds, want)
	}
}

func TestSameSeedSameBits(t *testing.T) {
	agentstest.CheckSeeds(t, 50, func(seed uint64) *agentstest.Run[*a2c.Learner] {
		return newRun(t, envcheck.Identity(5), 4, quick(), seed)
	})
}

func TestResumeEqualsUninterrupted(t *testing.T) {
	for name, rmsprop := range map[string]bool{"RMSprop": true, "Adam": false} {
		t.Run(name, func(t *testing.T) {
			agentstest.CheckResume(t, func(r *agentstest.Run[*a2c.Learner]) { r.Updates(25) }, func(seed uint64) *agentstest.Run[*a2c.Learner] {
				cfg := quick()
				cfg.UseRMSProp = rmsprop
				return newRun(t, envcheck.Identity(5), 4, cfg, seed)
			})
		})
	}
}
