package agentstest

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

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// Parse reads a checkpoint.
func Parse(t *testing.T, file []byte) models.File {
	t.Helper()
	f, err := models.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// format writes a checkpoint.
func format(t *testing.T, f models.File) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := models.Write(&buf, f); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Edited returns a checkpoint with a change.
func Edited(t *testing.T, file []byte, change func(f *models.File)) []byte {
	t.Helper()
	f := Parse(t, file)
	change(&f)
	return format(t, f)
}

// Without returns a checkpoint that lacks one of its tensors.
func Without(t *testing.T, file []byte, name string) []byte {
	t.Helper()
	return Edited(t, file, func(f *models.File) {
		before := len(f.Tensors)
		f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == name })
		if len(f.Tensors) != before-1 {
			t.Fatalf("no tensor %q in the checkpoint", name)
		}
	})
}

// Saved returns the learner's checkpoint.
func (r *Run[L]) Saved() []byte {
	r.T.Helper()
	var buf bytes.Buffer
	if err := r.L.Save(&buf); err != nil {
		r.T.Fatal(err)
	}
	return buf.Bytes()
}

// Tensors returns the learner's checkpoint without its seed.
func (r *Run[L]) Tensors() []byte {
	r.T.Helper()
	return Edited(r.T, r.Saved(), func(f *models.File) { f.Meta.Seed = 0 })
}

// CheckDescribes trains a run in Identity, made from seed 7, for 32 timesteps, and checks that its
// checkpoint states the algorithm, the hyperparameters, the environment, spaces, seed and
// timesteps.
func CheckDescribes[L Learner, C any](t *testing.T, algo string, config C, run func(seed uint64) *Run[L]) {
	t.Helper()
	r := run(7)
	r.Train(32)
	f := Parse(t, r.Saved())
	if f.Meta.Algo != algo || f.Meta.Env != "toy/Identity-v0" || f.Meta.Seed != 7 || f.Meta.Timesteps != 32 {
		t.Errorf("checkpoint of %q in %q, seed %d, after %d timesteps, want %s in toy/Identity-v0, 7, 32", f.Meta.Algo, f.Meta.Env, f.Meta.Seed, f.Meta.Timesteps, algo)
	}
	var got C
	if err := json.Unmarshal(f.Meta.Config, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config, got); diff != "" {
		t.Errorf("hyperparameters (-want +got):\n%s", diff)
	}
}

// A RejectedFile is a file that Load must reject.
type RejectedFile struct {
	Name  string
	File  []byte
	Is    error    // what the error wraps
	Parts []string // of its message
}

// CheckRejectedFiles lets learners load checkpoints of others. The function run makes two environments
// and a learner whose network has one hidden layer of the given width; bias is the name of the
// network's last parameter. more, unless nil, returns further refusals, given a valid checkpoint:
// of a learner in Identity(5) with width 4 after 32 timesteps.
func CheckRejectedFiles[L Learner](t *testing.T, bias string, run func(t *testing.T, spec *envs.Spec, width int, seed uint64) *Run[L], more func(same []byte) []RejectedFile) {
	t.Helper()
	saved := func(spec *envs.Spec, width int) []byte {
		r := run(t, spec, width, 3)
		r.Train(32)
		return r.Saved()
	}
	same := saved(envcheck.Identity(5), 4)
	cases := append(mismatched(t, same, bias), broken(same)...)
	cases = append(cases,
		RejectedFile{"environment", saved(envcheck.Timing(8, 0), 4), models.ErrMismatch, []string{"environment", "toy/Timing-v0", "toy/Identity-v0"}},
		RejectedFile{"observation space", saved(envcheck.Identity(4), 4), models.ErrMismatch, []string{"observation space", "[4]", "[5]"}},
		RejectedFile{"network", saved(envcheck.Identity(5), 6), models.ErrMismatch, []string{"network", "[6]", "[4]"}},
	)
	if more != nil {
		cases = append(cases, more(same)...)
	}
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			r := run(t, envcheck.Identity(5), 4, 1)
			r.Train(16)
			r.CheckRejects(tc.File, tc.Is, tc.Parts...)
		})
	}
}

// mismatched returns checkpoints that describe another learner, or this one incompletely.
func mismatched(t *testing.T, same []byte, bias string) []RejectedFile {
	t.Helper()
	algo, another := Parse(t, same).Meta.Algo, "dqn"
	if algo == another {
		another = "ppo"
	}
	edit := func(change func(f *models.File)) []byte { return Edited(t, same, change) }
	without := func(name string) []byte { return Without(t, same, name) }
	return []RejectedFile{
		{"action space", edit(func(f *models.File) { f.Meta.ActionSpace = `{"kind":"discrete","n":[9]}` }), models.ErrMismatch, []string{"action space", "[9]", "[5]"}},
		{"algorithm", edit(func(f *models.File) { f.Meta.Algo = another }), models.ErrMismatch, []string{"algorithm", another, algo}},
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
		{"no optimizer state", without("optimizer.exp_avg_sq." + bias), models.ErrMismatch, []string{"optimizer.exp_avg_sq." + bias}},
		// Everything that is read before the parameters is valid.
		{"no parameter", without(bias), models.ErrMismatch, []string{bias}},
		{"a layer too many", edit(func(f *models.File) {
			f.Put(safetensors.Tensor{Name: "cost_net.bias", Shape: []int{1}, Data: []float32{1}})
		}), models.ErrMismatch, []string{"cost_net.bias"}},
	}
}

// broken returns files that are not checkpoints.
func broken(same []byte) []RejectedFile {
	return []RejectedFile{
		{"empty", nil, safetensors.ErrCorrupt, nil},
		{"cut off in the length", same[:7], safetensors.ErrCorrupt, nil},
		{"cut off in the header", same[:100], safetensors.ErrCorrupt, nil},
		{"cut off in the data", same[:len(same)-1], safetensors.ErrCorrupt, nil},
		{"no checkpoint", []byte("PK\x03\x04 this is a zip archive of Stable-Baselines3"), safetensors.ErrCorrupt, nil},
	}
}

// CheckRejects loads a file and checks that the error wraps is and names the parts, and that the
// learner is unchanged.
func (r *Run[L]) CheckRejects(file []byte, is error, parts ...string) {
	r.T.Helper()
	before := r.Saved()
	err := r.L.Load(bytes.NewReader(file))
	if !errors.Is(err, is) {
		r.T.Fatalf("error %v, want one that wraps %v", err, is)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			r.T.Errorf("error %q does not name %q", err, part)
		}
	}
	if !bytes.Equal(before, r.Saved()) {
		r.T.Error("the learner has changed")
	}
}

// CheckReadError loads from a reader that fails, and checks that Load returns its error.
func (r *Run[L]) CheckReadError() {
	r.T.Helper()
	broken := errors.New("broken")
	if err := r.L.Load(io.MultiReader(bytes.NewReader(r.Saved()[:50]), failing{broken})); !errors.Is(err, broken) {
		r.T.Errorf("error %v, want the reader's", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// CheckLoads loads a checkpoint of the learner itself, saved after the given timesteps.
func (r *Run[L]) CheckLoads(file []byte, timesteps int) {
	r.T.Helper()
	if err := r.L.Load(bytes.NewReader(file)); err != nil {
		r.T.Fatal(err)
	}
	if r.L.NumTimesteps() != timesteps {
		r.T.Errorf("NumTimesteps() = %d after Load, want %d", r.L.NumTimesteps(), timesteps)
	}
	if !bytes.Equal(file, r.Saved()) {
		r.T.Error("the checkpoint after Load is not the one loaded")
	}
}

// CheckPolicy compares 50 actions of a checkpoint's policy with those of the learner's greedy
// policy.
func (r *Run[L]) CheckPolicy(policy agents.Policy) {
	r.T.Helper()
	greedy := r.L.Greedy()
	got, want := make([]float32, len(r.Actions)), make([]float32, len(r.Actions))
	for range 50 {
		if err := errors.Join(policy.Act(r.Batch, got), greedy.Act(r.Batch, want)); err != nil {
			r.T.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.T.Fatalf("actions (-learner +checkpoint):\n%s", diff)
		}
		var err error
		if r.Batch, err = r.Vec.Step(context.Background(), got); err != nil {
			r.T.Fatal(err)
		}
	}
}
