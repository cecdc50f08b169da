package dqn_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// tiny returns a configuration that learns after each step of 2 environments from the second on.
func tiny() dqn.Config {
	cfg := dqn.Defaults()
	cfg.LearningStarts, cfg.TrainFreq, cfg.BatchSize, cfg.BufferSize, cfg.NetArch, cfg.TotalTimesteps = 2, 1, 4, 100, []int{4}, 64
	return cfg
}

func TestSaveBetweenActAndObserve(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
	if err := r.l.Act(r.b, r.actions); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := r.l.Save(&buf); err == nil || buf.Len() != 0 {
		t.Errorf("Save wrote %d bytes with error %v, want 0 and an error", buf.Len(), err)
	}
}

func TestCheckpointDescribesTheLearner(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 7)
	r.train(32)
	f := parse(t, saved(t, r.l))
	if f.Meta.Algo != "dqn" || f.Meta.Env != "toy/Identity-v0" || f.Meta.Seed != 7 || f.Meta.Timesteps != 32 {
		t.Errorf("checkpoint of %q in %q, seed %d, after %d timesteps, want dqn in toy/Identity-v0, 7, 32", f.Meta.Algo, f.Meta.Env, f.Meta.Seed, f.Meta.Timesteps)
	}
	var cfg dqn.Config
	if err := json.Unmarshal(f.Meta.Config, &cfg); err != nil {
		t.Fatal(err)
	}
	cfg.TotalTimesteps = 64 // belongs to the run
	if diff := cmp.Diff(tiny(), cfg); diff != "" {
		t.Errorf("hyperparameters (-want +got):\n%s", diff)
	}
}

func TestLoadRefusesWhatBelongsToAnother(t *testing.T) {
	other := func(spec *envs.Spec, change func(*dqn.Config), steps int) []byte {
		cfg := tiny()
		if change != nil {
			change(&cfg)
		}
		r := newRun(t, spec, 2, cfg, 3)
		r.train(steps)
		return saved(t, r.l)
	}
	same := other(envcheck.Identity(5), nil, 32)
	edit := func(change func(f *models.File)) []byte {
		f := parse(t, same)
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
		{"environment", other(envcheck.Timing(8, 0), nil, 32), models.ErrMismatch, []string{"environment", "toy/Timing-v0", "toy/Identity-v0"}},
		{"observation space", other(envcheck.Identity(4), nil, 32), models.ErrMismatch, []string{"observation space", "[4]", "[5]"}},
		{"action space", edit(func(f *models.File) { f.Meta.ActionSpace = `{"kind":"discrete","n":[9]}` }), models.ErrMismatch, []string{"action space", "[9]", "[5]"}},
		{"algorithm", edit(func(f *models.File) { f.Meta.Algo = "ppo" }), models.ErrMismatch, []string{"algorithm", "ppo", "dqn"}},
		{"network", other(envcheck.Identity(5), func(c *dqn.Config) { c.NetArch = []int{6} }, 32), models.ErrMismatch, []string{"network", "[6]", "[4]"}},
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
		{"no optimizer state", without("optimizer.exp_avg_sq.q_net.q_net.2.bias"), models.ErrMismatch, []string{"optimizer.exp_avg_sq.q_net.q_net.2.bias"}},
		// All that is read before the parameters is right.
		{"no parameter", without("q_net.q_net.2.bias"), models.ErrMismatch, []string{"q_net.q_net.2.bias"}},
		{"no target", without("state.target.q_net.q_net.0.weight"), models.ErrMismatch, []string{"state.target.q_net.q_net.0.weight"}},
		{"negative number", edit(func(f *models.File) { f.Meta.State = []byte(`{"n_calls":-1}`) }), models.ErrMismatch, []string{"negative"}},
		{"half a buffer", without("state.replay.reward"), models.ErrMismatch, []string{"state.replay.reward"}},
		{"buffer of another size", other(envcheck.Identity(5), func(c *dqn.Config) { c.BufferSize = 1000 }, 600), models.ErrMismatch, []string{"state.replay.kind"}},
		{"dueling", other(envcheck.Identity(5), func(c *dqn.Config) { c.Dueling = true }, 32), models.ErrMismatch, []string{"network", "advantage_net"}},
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
			r.train(16)
			before := saved(t, r.l)
			err := r.l.Load(bytes.NewReader(tc.file))
			if !errors.Is(err, tc.is) {
				t.Fatalf("error %v, want one that wraps %v", err, tc.is)
			}
			for _, name := range tc.names {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("error %q does not name %q", err, name)
				}
			}
			if !bytes.Equal(before, saved(t, r.l)) {
				t.Error("the learner has changed")
			}
		})
	}
}

func TestLoadPassesOnTheReadersError(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
	broken := errors.New("broken")
	if err := r.l.Load(io.MultiReader(bytes.NewReader(saved(t, r.l)[:50]), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("error %v, want the reader's", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestLoadForgetsTheRest loads between Act and Observe: what was chosen belongs to other
// parameters.
func TestLoadForgetsTheRest(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, tiny(), 1)
	r.train(16)
	file := saved(t, r.l)
	r.train(16)
	if err := r.l.Act(r.b, r.actions); err != nil {
		t.Fatal(err)
	}
	if err := r.l.Load(bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	if r.l.NumTimesteps() != 16 {
		t.Errorf("NumTimesteps() = %d after Load, want 16", r.l.NumTimesteps())
	}
	if !bytes.Equal(file, saved(t, r.l)) {
		t.Error("the checkpoint after Load is not the one loaded")
	}
}

// TestNewPolicy compares the policy of a checkpoint's parameters alone with the learner's.
func TestNewPolicy(t *testing.T) {
	r := newRun(t, envcheck.Identity(5), 2, quick(), 1)
	r.train(512)
	net := newNetwork(t, quick(), rand.New(pcg.New(99)), r.v)
	if _, err := net.ReadFrom(bytes.NewReader(saved(t, r.l))); err != nil {
		t.Fatal(err)
	}
	policy, greedy := dqn.NewPolicy(net, r.l.Spec()), r.l.Greedy()
	got, want := make([]float32, 2), make([]float32, 2)
	for range 50 {
		if err := errors.Join(policy.Act(r.b, got), greedy.Act(r.b, want)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("actions (-learner +checkpoint):\n%s", diff)
		}
		var err error
		if r.b, err = r.v.Step(ctx, got); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWithoutReplayBuffer resumes from a checkpoint that leaves out the buffer: learning waits
// for learning_starts timesteps again.
func TestWithoutReplayBuffer(t *testing.T) {
	cfg := tiny()
	cfg.CheckpointReplayBuffer, cfg.LearningStarts = false, 10
	r := newRun(t, envcheck.Identity(5), 2, cfg, 1)
	r.train(32)
	file := saved(t, r.l)
	for _, tensor := range parse(t, file).Tensors {
		if strings.Contains(tensor.Name, "replay") {
			t.Errorf("the checkpoint holds %s", tensor.Name)
		}
	}
	second := newRun(t, envcheck.Identity(5), 2, cfg, 1)
	second.train(40) // to be forgotten
	if err := second.l.Load(bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	for timesteps := 34; timesteps <= 48; timesteps += 2 {
		if err := second.l.Act(second.b, second.actions); err != nil {
			t.Fatal(err)
		}
		var err error
		if second.b, err = second.v.Step(ctx, second.actions); err != nil {
			t.Fatal(err)
		}
		if err := second.l.Observe(second.b); err != nil {
			t.Fatal(err)
		}
		m, err := second.l.Update()
		if err != nil {
			t.Fatal(err)
		}
		if learns := timesteps > 32+10; learns != (m != nil) || second.l.NumTimesteps() != timesteps {
			t.Errorf("at timestep %d, counted as %d, Update() = %v", timesteps, second.l.NumTimesteps(), m)
		}
	}
	// A learner whose configuration asks for the buffer takes a checkpoint without, too.
	if err := newRun(t, envcheck.Identity(5), 2, tiny(), 1).l.Load(bytes.NewReader(file)); err != nil {
		t.Error(err)
	}
}
