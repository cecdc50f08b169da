package ppo

import (
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/models"
)

// quickNodes learns RecalledNode in seconds.
func quickNodes() RecurrentConfig {
	cfg := quickRecurrent()
	cfg.Policy, cfg.Gamma, cfg.NetArch = policies.NodeLSTM, 0, []int{32}
	return cfg
}

// TestLearnsToRecallNodes trains on RecalledNode with episodes of 6 steps among the half of 8 nodes:
// a policy of nodes without memory comes to 1 + 5/2 at most. What it has learned serves 32 nodes, of
// which the largest of 16 is closer to the next.
func TestLearnsToRecallNodes(t *testing.T) {
	spec, large := envcheck.RecalledNode(8, 6), envcheck.RecalledNode(32, 6)
	for name, change := range map[string]func(*RecurrentConfig){
		"lstm of each": func(*RecurrentConfig) {},
		"shared lstm":  func(c *RecurrentConfig) { c.EnableCriticLSTM, c.SharedLSTM = false, true },
		"dense critic": func(c *RecurrentConfig) { c.EnableCriticLSTM = false },
		"mean":         func(c *RecurrentConfig) { c.Pool = models.Mean },
	} {
		if testing.Short() && name != "lstm of each" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quickNodes()
			change(&cfg)
			r := newRecurrentRun(t, spec, 8, cfg, 1)
			for r.L.NumTimesteps() < cfg.TotalTimesteps {
				r.Cycle()
				if slices.Contains(r.Batch.Invalid, true) {
					t.Fatalf("a masked action after %d timesteps", r.L.NumTimesteps())
				}
			}
			if got := r.Evaluate(spec, 100); got < 5.4 {
				t.Fatalf("mean return %v, want at least 5.4 of 6", got)
			}
			if got := playedAmong(t, large, r.Saved()); got < 5 {
				t.Errorf("mean return %v among 32 nodes after training among 8, want at least 5 of 6", got)
			}
		})
	}
}

// TestNodesWithoutMemory: a coin is worth 2.5 ± 2.5 in each episode, so that the mean of 400 has a
// deviation of 0.125.
func TestNodesWithoutMemory(t *testing.T) {
	spec := envcheck.RecalledNode(8, 6)
	cfg := Defaults()
	cfg.NSteps, cfg.BatchSize, cfg.NEpochs, cfg.Gamma, cfg.TotalTimesteps, cfg.LearningRate = 32, 128, 4, 0, 40_960, agents.Constant(3e-3)
	cfg.Policy, cfg.NetArch = policies.Node, []int{32}
	r := agentstest.NewRun(t, spec, 8, 1, func(env agents.EnvInfo, seed uint64) (*Learner, error) {
		return New(cfg, env, agentstest.Networks(t, seed), seed)
	})
	r.Train(cfg.TotalTimesteps)
	if got := r.Evaluate(spec, 400); got > 3.5+4*0.125 {
		t.Errorf("mean return %v without memory, want at most about 3.5", got)
	}
}

// playedAmong returns the mean return of 100 episodes of the greedy policy of a checkpoint, whose
// network is bound to the nodes of spec.
func playedAmong(t *testing.T, spec *envs.Spec, checkpoint []byte) float64 {
	t.Helper()
	f := agentstest.Parse(t, checkpoint)
	v, _ := agentstest.NewVec(t, spec, 1)
	obs, act := v.Spaces()
	var err error
	if f.Meta.Spec, err = policies.Rebind(f.Meta.Spec, obs, act); err != nil {
		t.Fatal(err)
	}
	want, err := agents.EnvInfo{ID: spec.ID, Obs: obs, Act: act}.Checkpoint(f.Meta.Algo, f.Meta.Spec)
	if err != nil {
		t.Fatal(err)
	}
	f.Meta.ObservationSpace, f.Meta.ActionSpace = want.ObservationSpace, want.ActionSpace
	net := agentstest.Network(t, f.Meta.Spec, 9)
	if err := f.Params(net.Params()); err != nil {
		t.Fatal(err)
	}
	policy, err := onpolicy.NewPolicy(net, f)
	if err != nil {
		t.Fatal(err)
	}
	return agentstest.MeanReturn(t, spec, policy, 100)
}
