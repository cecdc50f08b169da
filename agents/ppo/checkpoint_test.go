package ppo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
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
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 7)
	r.Train(32)
	f := agentstest.Parse(t, r.Saved())
	if f.Meta.Algo != "ppo" || f.Meta.Env != "toy/Identity-v0" || f.Meta.Seed != 7 || f.Meta.Timesteps != 32 {
		t.Errorf("checkpoint of %q in %q, seed %d, after %d timesteps, want ppo in toy/Identity-v0, 7, 32", f.Meta.Algo, f.Meta.Env, f.Meta.Seed, f.Meta.Timesteps)
	}
	var cfg ppo.Config
	if err := json.Unmarshal(f.Meta.Config, &cfg); err != nil {
		t.Fatal(err)
	}
	cfg.TotalTimesteps = 64 // belongs to the run
	if diff := cmp.Diff(tiny(), cfg); diff != "" {
		t.Errorf("hyperparameters (-want +got):\n%s", diff)
	}
}

func TestLoadRefusesWhatBelongsToAnother(t *testing.T) {
	other := func(spec *envs.Spec, change func(*ppo.Config)) []byte {
		cfg := tiny()
		if change != nil {
			change(&cfg)
		}
		r := newRun(t, spec, 2, cfg, 3)
		r.Train(32)
		return r.Saved()
	}
	same := other(envcheck.Identity(5), nil)
	edit := func(change func(f *models.File)) []byte {
		f := agentstest.Parse(t, same)
		change(&f)
		var buf bytes.Buffer
		if err := models.Write(&buf, f); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	without := func(name string) []byte {
		return edit(func(f *models.File) {
			before := len(f.Tensors)
			f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == name })
			if len(f.Tensors) != before-1 {
				t.Fatalf("no tensor %q in the checkpoint", name)
			}
		})
	}
	for _, tc := range []struct {
		name  string
		file  []byte
		is    error
		names []string // what the message tells
	}{
		{"environment", other(envcheck.Timing(8, 0), nil), models.ErrMismatch, []string{"environment", "toy/Timing-v0", "toy/Identity-v0"}},
		{"observation space", other(envcheck.Identity(4), nil), models.ErrMismatch, []string{"observation space", "[4]", "[5]"}},
		{"action space", edit(func(f *models.File) { f.Meta.ActionSpace = `{"kind":"discrete","n":[9]}` }), models.ErrMismatch, []string{"action space", "[9]", "[5]"}},
		{"algorithm", edit(func(f *models.File) { f.Meta.Algo = "dqn" }), models.ErrMismatch, []string{"algorithm", "dqn", "ppo"}},
		{"network", other(envcheck.Identity(5), func(c *ppo.Config) { c.NetArch = []int{6} }), models.ErrMismatch, []string{"network", "[6]", "[4]"}},
		{"no state", edit(func(f *models.File) { f.Meta.State = nil }), models.ErrMismatch, []string{"state"}},
		{"no generator", without("state.rng"), models.ErrMismatch, []string{"state.rng"}},
		{"short generator", edit(func(f *models.File) {
			for i := range f.Tensors {
				if f.Tensors[i].Name == "state.rng" {
					f.Tensors[i] = safetensors.Tensor{Name: "state.rng", Shape: []int{3}, Data: []byte{1, 2, 3}}
				}
			}
		}), models.ErrMismatch, []string{"pcg"}},
		{"no optimizer step", without("optimizer.step"), models.ErrMismatch, []string{"optimizer.step"}},
		{"no optimizer state", without("optimizer.exp_avg_sq.value_net.bias"), models.ErrMismatch, []string{"optimizer.exp_avg_sq.value_net.bias"}},
		// All that is read before the parameters is right.
		{"no parameter", without("value_net.bias"), models.ErrMismatch, []string{"value_net.bias"}},
		{"a layer too many", edit(func(f *models.File) {
			f.Put(safetensors.Tensor{Name: "cost_net.bias", Shape: []int{1}, Data: []float32{1}})
		}), models.ErrMismatch, []string{"cost_net.bias"}},
		{"empty", nil, safetensors.ErrCorrupt, nil},
		{"cut off in the length", same[:7], safetensors.ErrCorrupt, nil},
		{"cut off in the header", same[:100], safetensors.ErrCorrupt, nil},
		{"cut off in the data", same[:len(same)-1], safetensors.ErrCorrupt, nil},
		{"no checkpoint", []byte("PK\x03\x04 this is a zip archive of Stable-Baselines3"), safetensors.ErrCorrupt, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
			r.Train(16)
			before := r.Saved()
			err := r.L.Load(bytes.NewReader(tc.file))
			if !errors.Is(err, tc.is) {
				t.Fatalf("error %v, want one that wraps %v", err, tc.is)
			}
			for _, name := range tc.names {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("error %q does not name %q", err, name)
				}
			}
			if !bytes.Equal(before, r.Saved()) {
				t.Error("the learner has changed")
			}
		})
	}
}

func TestLoadPassesOnTheReadersError(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
	broken := errors.New("broken")
	if err := r.L.Load(io.MultiReader(bytes.NewReader(r.Saved()[:50]), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("error %v, want the reader's", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

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
	if err := r.L.Load(bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	if r.L.NumTimesteps() != 16 {
		t.Errorf("NumTimesteps() = %d after Load, want 16", r.L.NumTimesteps())
	}
	if !bytes.Equal(file, r.Saved()) {
		t.Error("the checkpoint after Load is not the one loaded")
	}
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
	greedy := r.L.Greedy()
	got, want := make([]float32, 2), make([]float32, 2)
	for range 50 {
		if err := errors.Join(policy.Act(r.Batch, got), greedy.Act(r.Batch, want)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("actions (-learner +checkpoint):\n%s", diff)
		}
		if r.Batch, err = r.Vec.Step(context.Background(), got); err != nil {
			t.Fatal(err)
		}
	}
}
