package ppo_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// tiny returns a configuration whose rollouts are 8 steps of 2 environments.
func tiny() ppo.Config {
	cfg := ppo.Defaults()
	cfg.NSteps, cfg.BatchSize, cfg.NEpochs, cfg.NetArch, cfg.TotalTimesteps = 8, 16, 1, []int{4}, 64
	return cfg
}

func TestSaveInMidRollout(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
	for k := range 8 {
		if err := r.L.Act(r.Batch, r.Actions); err != nil {
			t.Fatal(err)
		}
		var err error
		if r.Batch, err = r.Vec.Step(context.Background(), r.Actions); err != nil {
			t.Fatal(err)
		}
		if err := r.L.Observe(r.Batch); err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		if err := r.L.Save(&buf); err == nil || buf.Len() != 0 {
			t.Errorf("Save after %d of 8 steps wrote %d bytes with error %v, want 0 and an error", k+1, buf.Len(), err)
		}
	}
	if m, err := r.L.Update(); m == nil || err != nil {
		t.Fatalf("Update() = %v, %v", m, err)
	}
	r.Saved()
}

func TestCheckpointDescribesTheLearner(t *testing.T) {
	want := tiny()
	want.TotalTimesteps = 0 // belongs to the run
	agentstest.CheckDescribes(t, "ppo", want, func(seed uint64) *agentstest.Run[*ppo.Learner] {
		return newRun(t, envcheck.Identity(5), 2, tiny(), seed)
	})
}

func TestLoadRefusesWhatBelongsToAnother(t *testing.T) {
	agentstest.CheckRejectedFiles(t, "value_net.bias", func(t *testing.T, spec *envs.Spec, width int, seed uint64) *agentstest.Run[*ppo.Learner] {
		cfg := tiny()
		cfg.NetArch = []int{width}
		return newRun(t, spec, 2, cfg, seed)
	}, nil)
}

func TestLoadPassesOnTheReadersError(t *testing.T) {
	newRun(t, envcheck.Identity(5), 2, tiny(), 1).CheckReadError()
}

// TestLoadForgetsTheRollout loads in the middle of a rollout: what was recorded belongs to
// other parameters.
func TestLoadForgetsTheRollout(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
	r.Train(16)
	file := r.Saved()
	if err := r.L.Act(r.Batch, r.Actions); err != nil {
		t.Fatal(err)
	}
	if err := r.L.Observe(r.Batch); err != nil {
		t.Fatal(err)
	}
	r.CheckLoads(file, 16)
}

// TestNewPolicy compares the policy of a checkpoint's parameters alone with the learner's.
func TestNewPolicy(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, quick(), 1)
	r.Train(512)
	file := agentstest.Parse(t, r.Saved())
	net := agentstest.Network(t, r.L.Spec(), 99)
	if err := file.Params(net.Params()); err != nil {
		t.Fatal(err)
	}
	policy, err := onpolicy.NewPolicy(net, file)
	if err != nil {
		t.Fatal(err)
	}
	r.CheckPolicy(policy)
}
