package main

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
)

// exactArgs are arguments of a short training of an algorithm with all the state that it can have.
func exactArgs(algo, folder string, more ...string) []string {
	args := []string{"train", "--algo", algo, "--env", "classic/CartPole-v1", "--params", "n_envs:2", "-n", "384", "-f", folder, "--seed", "3",
		"--params", "net_arch:[8]", "--eval-freq", "128", "--eval-episodes", "2", "--save-freq", "128", "--json"}
	switch algo {
	case "ppo", "ppo_lstm":
		args = append(args, "--params", "n_steps:16", "--params", "batch_size:32", "--params", "n_epochs:2", "--params", "normalize:true")
	case "a2c":
		args = append(args, "--params", "normalize:true")
	case "reinforce":
		args = append(args, "--params", "n_episodes:2", "--params", "normalize:true")
	case "dqn": // the buffer of 150 has gone round before the checkpoint of 256
		args = append(args, "--params", "learning_starts:32", "--params", "train_freq:2", "--params", "buffer_size:150", "--params", "n_steps:3",
			"--params", "prioritized_replay:true", "--params", "target_update_interval:100", "--params", "exploration_fraction:0.9")
	}
	if algo == "ppo_lstm" {
		args = append(args, "--params", "lstm_hidden_size:8")
	}
	return append(args, more...)
}

// checkpoints returns those of a folder's checkpoints that lie before the end, by timesteps.
func checkpoints(t *testing.T, dir string, end int) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "rl_model_*_steps.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(path string) int {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "rl_model_"), "_steps.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	found = slices.DeleteFunc(found, func(path string) bool { return at(path) >= end })
	slices.SortFunc(found, func(a, b string) int { return at(a) - at(b) })
	if len(found) == 0 {
		t.Fatalf("no checkpoint before %d timesteps in %s", end, dir)
	}
	return found
}

// timestepsOf returns the timesteps of a model file.
func timestepsOf(t *testing.T, path string) int {
	t.Helper()
	f, err := models.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(f.Meta.Timesteps)
}

// TestResumeIsExact resumes a training of each algorithm from each of its checkpoints and compares
// what it leaves with what the uninterrupted training left, byte for byte.
func TestResumeIsExact(t *testing.T) {
	for _, algo := range algos {
		t.Run(algo, func(t *testing.T) {
			folder := t.TempDir()
			mustExecute(t, exactArgs(algo, folder)...)
			dir := filepath.Join(folder, algo, "classic-CartPole-v1_1")
			names := []string{"classic-CartPole-v1.safetensors", "best_model.safetensors", "evaluations.csv"} // others hold wall-clock times
			want := map[string]string{}
			for _, name := range names {
				want[name] = read(t, filepath.Join(dir, name))
			}
			end := timestepsOf(t, filepath.Join(dir, names[0]))
			for _, checkpoint := range checkpoints(t, dir, end) {
				// Resuming must not depend on what came after the checkpoint.
				if err := os.Remove(filepath.Join(dir, names[0])); err != nil {
					t.Fatal(err)
				}
				mustExecute(t, exactArgs(algo, folder, "--resume", checkpoint)...)
				for _, name := range names {
					if read(t, filepath.Join(dir, name)) != want[name] {
						t.Errorf("resumed from %s, %s is not that of the uninterrupted training", filepath.Base(checkpoint), name)
					}
				}
			}
		})
	}
}

// TestResumeKeepsTheBest: the first evaluation of a training whose episodes all have the same return
// is its best, after a resumption, too.
func TestResumeKeepsTheBest(t *testing.T) {
	folder := t.TempDir()
	args := brokenArgs("ppo", folder, "-n", "256", "--eval-freq", "64", "--eval-episodes", "2")
	mustExecute(t, args...)
	dir := filepath.Join(folder, "ppo", "test-Broken-v0_1")
	best := filepath.Join(dir, "best_model.safetensors")
	if n := timestepsOf(t, best); n != 64 {
		t.Fatalf("the best model has %d timesteps, want 64", n)
	}
	mustExecute(t, append(args, "--resume", filepath.Join(dir, "rl_model_128_steps.safetensors"))...)
	if n := timestepsOf(t, best); n != 64 {
		t.Errorf("after a resumption the best model has %d timesteps, want 64", n)
	}
	if diff := cmp.Diff(5, strings.Count(read(t, filepath.Join(dir, "evaluations.csv")), "\n")); diff != "" {
		t.Errorf("lines of evaluations.csv, with the header (-want +got):\n%s", diff)
	}
}

// TestSaveRefusesNaN: a training whose network has a NaN writes no model.
func TestSaveRefusesNaN(t *testing.T) {
	for _, algo := range algos {
		t.Run(algo, func(t *testing.T) {
			spec, err := envs.Lookup("classic/CartPole-v1")
			if err != nil {
				t.Fatal(err)
			}
			h, err := readHyperparams(algo, spec.ID, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := newRun(context.Background(), spec, trainConfig{algo: algo, env: spec.ID, engine: engineFused, params: h, evalEpisodes: 1, logFolder: t.TempDir(), quiet: true}, os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			r.learner.nets[0].Params()[0].Value[3] = float32(math.NaN())
			for what, save := range map[string]func() error{"last": r.finish, "best": r.saveBest} {
				if err := save(); err == nil || !strings.Contains(err.Error(), "is NaN at index") {
					t.Errorf("the %s model: error %v, want that of the NaN", what, err)
				}
			}
			for _, path := range []string{r.finalModel(), r.bestModel()} {
				if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is there: %v", path, err)
				}
			}
		})
	}
}
