package run_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestResumeIsExact resumes a training of each algorithm from each of its checkpoints and compares
// what it leaves with what the uninterrupted training left, byte for byte.
func TestResumeIsExact(t *testing.T) {
	for _, algo := range algorithms.Names(nil) {
		t.Run(algo, func(t *testing.T) {
			c, params := exact(t, algo)
			whole := mustTrain(t, c, params)
			names := []string{"classic-CartPole-v1.safetensors", "best_model.safetensors", "evaluations.csv"} // others hold wall-clock times
			want := map[string]string{}
			for _, name := range names {
				want[name] = envstest.Read(t, filepath.Join(whole.dir, name))
			}
			for _, checkpoint := range clitest.Checkpoints(t, whole.dir, clitest.Timesteps(t, whole.Model)) {
				// Resuming must not depend on what came after the checkpoint.
				if err := os.Remove(whole.Model); err != nil {
					t.Fatal(err)
				}
				mustTrain(t, run.Config{Resume: checkpoint}, nil) // the file says what it is
				for _, name := range names {
					if envstest.Read(t, filepath.Join(whole.dir, name)) != want[name] {
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
	c, params := broken(t, "ppo", map[string]any{})
	c.EvalFreq, c.EvalEpisodes, params["n_timesteps"] = 64, 2, 256
	r := mustTrain(t, c, params)
	best := filepath.Join(r.dir, "best_model.safetensors")
	if n := clitest.Timesteps(t, best); n != 64 {
		t.Fatalf("the best model has %d timesteps, want 64", n)
	}
	mustTrain(t, run.Config{Resume: filepath.Join(r.dir, "rl_model_128_steps.safetensors")}, nil)
	if n := clitest.Timesteps(t, best); n != 64 {
		t.Errorf("after a resumption the best model has %d timesteps, want 64", n)
	}
	if diff := cmp.Diff(5, strings.Count(envstest.Read(t, filepath.Join(r.dir, "evaluations.csv")), "\n")); diff != "" {
		t.Errorf("lines of evaluations.csv, with the header (-want +got):\n%s", diff)
	}
}

// TestResumeWithoutReplayBuffer: a DQN that cannot be resumed exactly is refused with what to do, or, if
// that is what was asked for, says that it is not exact.
func TestResumeWithoutReplayBuffer(t *testing.T) {
	c, params := exact(t, "dqn")
	best := run.Config{Resume: filepath.Join(mustTrain(t, c, params).dir, "best_model.safetensors")}
	_, err := train(t, best, nil)
	for _, want := range []string{"has no replay buffer", "rl_model_<n>_steps.safetensors", "--params checkpoint_replay_buffer:false"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("resumed from the best model: %v, want %q in it", err, want)
		}
	}
	r, err := train(t, best, map[string]any{"checkpoint_replay_buffer": false})
	if err != nil || !strings.Contains(r.printed, inexact) {
		t.Errorf("%v, want a training that says that it is not exact:\n%s", err, r.printed)
	}
}

// inexact is what a resumed training says that is not that of an uninterrupted one.
const inexact = "the result is not that of an uninterrupted training"

// TestReplayBufferSizeIsPrinted: a training says once how large the buffer in its checkpoints is.
func TestReplayBufferSizeIsPrinted(t *testing.T) {
	c, params := exact(t, "dqn")
	r := mustTrain(t, c, params)
	if n := strings.Count(r.printed, "rl_model_128_steps.safetensors: its replay buffer takes 0.0 MB; --params checkpoint_replay_buffer:false"); n != 1 {
		t.Errorf("the buffer's size is told %d times, want once:\n%s", n, r.printed)
	}
}

// TestResumeOfSolved: a training that has reached its threshold makes no further step when resumed.
func TestResumeOfSolved(t *testing.T) {
	threshold := 1.0
	c := run.Config{Algo: "ppo", Env: "classic/CartPole-v1", Seed: 1, Threshold: &threshold, EvalFreq: 128, EvalEpisodes: 2, LogFolder: t.TempDir()}
	r := mustTrain(t, c, map[string]any{"n_timesteps": 512, "n_steps": 32, "n_envs": 4, "batch_size": 32})
	if r.Timesteps != 128 || !r.Stopped {
		t.Fatalf("%+v, want that it stops with the first evaluation, after 128 steps", r)
	}
	if again := mustTrain(t, run.Config{Resume: r.Model}, nil); again.Timesteps != 128 || !again.Stopped {
		t.Errorf("resumed: %+v, want no step more", again)
	}
}

// TestResumeOnServersIsExact: a training on two servers, resumed from each of its checkpoints on others, on two or on one, leaves what
// the uninterrupted training left, byte for byte, the servers' environments included. All else is that of a training in
// this process.
func TestResumeOnServersIsExact(t *testing.T) {
	two := func() []string { return []string{hosttest.Start(t).WS, hosttest.Start(t).WS} }
	urls := two()
	for _, tc := range []struct {
		name string
		make func(*testing.T) (run.Config, map[string]any)
	}{
		{"gang", gang},
		{"cartpole", func(t *testing.T) (run.Config, map[string]any) { return exact(t, "ppo") }},
		{"dqn", func(t *testing.T) (run.Config, map[string]any) { return exact(t, "dqn") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, params := tc.make(t)
			c.URLs = urls
			whole := mustTrain(t, c, params)
			names := []string{filepath.Base(whole.Model), "best_model.safetensors", "evaluations.csv"}
			want := map[string]string{}
			for _, name := range names {
				want[name] = envstest.Read(t, filepath.Join(whole.dir, name))
			}
			for k, checkpoint := range clitest.Checkpoints(t, whole.dir, clitest.Timesteps(t, whole.Model)) {
				if err := os.Remove(whole.Model); err != nil {
					t.Fatal(err)
				}
				on := two()
				again := mustTrain(t, run.Config{Resume: checkpoint, URLs: on[:2-k%2]}, nil)
				if strings.Contains(again.printed, inexact) {
					t.Errorf("resumed from %s, it says that it is inexact:\n%s", filepath.Base(checkpoint), again.printed)
				}
				for _, name := range names {
					if envstest.Read(t, filepath.Join(whole.dir, name)) != want[name] {
						t.Errorf("resumed from %s, %s is not that of the uninterrupted training", filepath.Base(checkpoint), name)
					}
				}
			}
			here, params := tc.make(t)
			if diff := cmp.Diff(tensorsOf(t, mustTrain(t, here, params).Model), tensorsOf(t, whole.Model)); diff != "" {
				t.Errorf("in this process (-) and on servers (+):\n%.500s", diff)
			}
		})
	}
}

// tensorsOf returns the tensors of a model but the environments.
func tensorsOf(t *testing.T, path string) []safetensors.Tensor {
	t.Helper()
	f, err := models.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool {
		return t.Name == "state.envs" || t.Name == "state.server_envs"
	})
}

// TestResumeOnOtherServers: servers that cannot load the environments begin new episodes, and the training says so.
func TestResumeOnOtherServers(t *testing.T) {
	c, params := gang(t)
	c.URLs = []string{hosttest.Start(t).WS}
	r := mustTrain(t, c, params)
	checkpoint := filepath.Join(r.dir, "rl_model_128_steps.safetensors")
	f, err := models.ReadFile(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	state, err := f.Tensor("state.server_envs")
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Replace(state.Data.([]byte), []byte("kstate1"), []byte("kstate0"), 1)
	for i := range f.Tensors {
		if f.Tensors[i].Name == state.Name {
			f.Tensors[i].Data = data
		}
	}
	if err := models.WriteFile(checkpoint, f); err != nil {
		t.Fatal(err)
	}
	again := mustTrain(t, run.Config{Resume: checkpoint, URLs: c.URLs}, nil)
	if !strings.Contains(again.printed, inexact) || !strings.Contains(again.printed, "none of this version") {
		t.Errorf("it does not say that it is inexact, and why:\n%s", again.printed)
	}
	if again.Timesteps != 256 {
		t.Errorf("%d timesteps, want 256", again.Timesteps)
	}
}

// TestResumeOnServersIsInexact: a training in this process that is resumed on servers says that it is not that of an
// uninterrupted one; one that is resumed in this process does not.
func TestResumeOnServersIsInexact(t *testing.T) {
	c, params := gang(t)
	params["n_timesteps"] = 64
	r := mustTrain(t, c, params)
	for _, urls := range [][]string{nil, {hosttest.Start(t).WS}} {
		again := mustTrain(t, run.Config{Resume: r.Model, URLs: urls}, map[string]any{"n_timesteps": 128 + 64*len(urls)})
		if strings.Contains(again.printed, inexact) != (urls != nil) {
			t.Errorf("resumed on %v, want it to say that it is inexact: %v\n%s", urls, urls != nil, again.printed)
		}
	}
}

// TestInexactResumeMovesTheBest: a resumed training that is not that of an uninterrupted one moves a best
// model of later steps aside; an exact one, which comes to it again, keeps it.
func TestInexactResumeMovesTheBest(t *testing.T) {
	for _, urls := range [][]string{nil, {hosttest.Start(t).WS}} {
		c, params := gang(t)
		r := mustTrain(t, c, params)
		last := envstest.Read(t, r.Model) // of 256 steps
		envstest.Write(t, filepath.Join(r.dir, "best_model.safetensors"), last)
		mustTrain(t, run.Config{Resume: filepath.Join(r.dir, "rl_model_128_steps.safetensors"), URLs: urls}, nil)
		_, err := os.Stat(filepath.Join(r.dir, "superseded", "best_model.safetensors"))
		if moved := err == nil; moved != (urls != nil) {
			t.Errorf("resumed on %v: the best model of 256 steps is moved aside: %v, want %v", urls, moved, urls != nil)
		}
	}
}

// TestResumeSeeds resumes trainings of which one is at its end, one is not and one has no checkpoint.
func TestResumeSeeds(t *testing.T) {
	c, params := exact(t, "a2c")
	whole, err := trainSeeds(t, c, params, "1..3")
	if err != nil {
		t.Fatal(err)
	}
	dir := whole.Folder
	model := func(seed int) string {
		return filepath.Join(dir, fmt.Sprintf("seed_%d", seed), "classic-CartPole-v1.safetensors")
	}
	want := map[int]string{}
	for seed := 1; seed <= 3; seed++ {
		want[seed] = envstest.Read(t, model(seed))
	}
	done, err := os.Stat(model(1))
	if err != nil {
		t.Fatal(err)
	}
	left := clitest.Checkpoints(t, filepath.Dir(model(2)), 384)
	gone := append(clitest.Checkpoints(t, filepath.Dir(model(3)), 1<<30), left[len(left)-1], model(2), model(3))
	for _, path := range append(gone, clitest.Checkpoints(t, filepath.Dir(model(2)), 1<<30)[len(left):]...) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := trainSeeds(t, run.Config{Resume: dir}, nil, "2..3"); err == nil || !strings.Contains(err.Error(), "--seeds 2..3 lacks 1") {
		t.Errorf("with fewer seeds: %v", err)
	}
	if _, err := trainSeeds(t, run.Config{Resume: dir}, map[string]any{"gamma": 0.5}, ""); err == nil || !strings.Contains(err.Error(), "gamma is 0.5, but") {
		t.Errorf("with another gamma: %v", err)
	}
	if _, err := trainSeeds(t, run.Config{Resume: dir, Command: "again"}, nil, "1..4"); err != nil {
		t.Fatal(err)
	}
	for seed := 1; seed <= 3; seed++ {
		if envstest.Read(t, model(seed)) != want[seed] {
			t.Errorf("the last model of seed %d is not that of the uninterrupted training", seed)
		}
	}
	if again, err := os.Stat(model(1)); err != nil || !again.ModTime().Equal(done.ModTime()) {
		t.Errorf("the finished model of seed 1 was written again: %v", err)
	}
	if n := clitest.Timesteps(t, model(4)); n < 384 {
		t.Errorf("seed 4 has %d timesteps, want at least 384", n)
	}
	a, err := run.ReadArgs(dir)
	if diff := cmp.Diff([]uint64{1, 2, 3, 4}, a.Seeds); err != nil || diff != "" || len(a.Resumed) != 1 {
		t.Errorf("args.yml: %v, resumed %v; seeds (-want +got):\n%s", err, a.Resumed, diff)
	}
	if lines := strings.Count(envstest.Read(t, filepath.Join(dir, "seeds.csv")), "\n"); lines != 5 {
		t.Errorf("seeds.csv has %d lines, want a header and 4", lines)
	}
}
