//go:build unix

package core

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestSharedSeeds: an interrupted process and two after it train with shared seeds. Each seed has one result,
// of a model with the bytes of a training of its own.
func TestSharedSeeds(t *testing.T) {
	args := []string{"train", "--algo", "a2c", "--env", "classic/CartPole-v1", "-n", "20000", "--eval-freq", "0", "--eval-episodes", "2", "--save-freq", "500", "--params", "n_envs:2", "--params", "net_arch:[8]", "--json"}
	file := filepath.Join(t.TempDir(), "seeds.journal")
	shared := append(append([]string{}, args...), "--seeds", "1..3", "--study", file, "--n-jobs", "1")
	ctx := clitest.CancelWhen(t, func() bool {
		found, err := filepath.Glob(filepath.Join(file+".seeds", "seed_1", "*", "rl_model_*"))
		return err == nil && len(found) > 0
	})
	if _, _, err := execute(t, ctx, shared...); err == nil || !strings.Contains(err.Error(), "joins them again") {
		t.Fatalf("the interrupted process: %v", err)
	}
	outs := make(chan string, 2)
	for range 2 {
		go func() {
			text, _, err := execute(t, context.Background(), shared...)
			if err != nil {
				t.Error(err)
			}
			outs <- text
		}()
	}
	var res run.SeedsResult
	first, second := <-outs, <-outs
	if err := json.Unmarshal([]byte(first), &res); err != nil {
		t.Fatalf("%v: %s, %s", err, first, second)
	}
	if len(res.Seeds) != 3 || res.Eval == nil {
		t.Fatalf("%+v, want 3 seeds with a mean", res)
	}
	for i, seed := range []string{"1", "2", "3"} {
		alone := clitest.Decode[run.Result](t, mustExecute(t, append(args, "--seed", seed, "-f", t.TempDir())...))
		got, err := os.ReadFile(res.Seeds[i].Model)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(alone.Model)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) || res.Seeds[i].EvalMean != alone.EvalMean {
			t.Errorf("seed %s: mean %v, alone %v; the models are equal: %v", seed, res.Seeds[i].EvalMean, alone.EvalMean, bytes.Equal(got, want))
		}
	}
}

// TestSharedSeedsKilled: of two processes that share seeds one is killed in the middle of a training. The other, or one
// started later, resumes it from the newest checkpoint. Every seed has one result, and returns and models are those of an
// undisturbed command.
func TestSharedSeedsKilled(t *testing.T) {
	args := []string{"train", "--algo", "a2c", "--env", "classic/CartPole-v1", "-n", "10000", "--eval-freq", "0", "--eval-episodes", "2", "--save-freq", "500",
		"--params", "n_envs:2", "--params", "net_arch:[8]", "--json", "--seeds", "1..3", "--n-jobs", "1"}
	want := clitest.Decode[run.SeedsResult](t, mustExecute(t, append(args, "-f", t.TempDir())...))
	file := filepath.Join(t.TempDir(), "seeds.journal")
	shared := append(args, "--study", file, "--lease", "3s")
	victim, _ := clitest.Process(t, shared...)
	attempt := "" // the folder in which it trains, with a checkpoint and without a last model
	clitest.KillWhen(t, victim, file, func() bool {
		found, err := filepath.Glob(filepath.Join(file+".seeds", "seed_*", "*", "rl_model_*"))
		if err != nil || len(found) == 0 {
			return false
		}
		attempt = filepath.Dir(found[len(found)-1])
		_, err = os.Stat(filepath.Join(attempt, run.EnvName("classic/CartPole-v1")+".safetensors"))
		return os.IsNotExist(err)
	})
	const mark = "mark" // is copied to the folder of who resumes
	envstest.Write(t, filepath.Join(attempt, mark), "")
	for i, out := range clitest.Together(t, 2, shared...) {
		got := clitest.Decode[run.SeedsResult](t, string(out))
		if got.Eval == nil || *got.Eval != *want.Eval || len(got.Seeds) != len(want.Seeds) {
			t.Fatalf("process %d: mean %v of %d seeds, undisturbed %v of %d", i, got.Eval, len(got.Seeds), want.Eval, len(want.Seeds))
		}
		for k, s := range got.Seeds {
			if w := want.Seeds[k]; s.Seed != w.Seed || s.Timesteps != w.Timesteps || s.EvalMean != w.EvalMean || !bytes.Equal(content(t, s.Model), content(t, w.Model)) {
				t.Errorf("process %d: seed %d has %+v, undisturbed %+v; the models are equal: %v", i, w.Seed, s, w, bytes.Equal(content(t, s.Model), content(t, w.Model)))
			}
		}
		resumed, err := filepath.Glob(filepath.Join(filepath.Dir(attempt), "*", mark))
		if err != nil || len(resumed) < 2 {
			t.Errorf("the killed training and its copies are %v, %v; want a copy", resumed, err)
		}
	}
	journal := string(content(t, file))
	for trial := range want.Seeds {
		if n := strings.Count(journal, fmt.Sprintf(`"trial_id":%d,"user_attr":{"result_0"`, trial)); n != 1 {
			t.Errorf("%d results of seed %d, want one", n, want.Seeds[trial].Seed)
		}
	}
}

func TestSharedSeedsRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seeds.journal")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "--study shares the trainings of --seeds: give both"},
		{[]string{"--seeds", "1..2", "--lease", "0s"}, "--lease 0s, want above 0"},
	} {
		args := append([]string{"train", "--algo", "a2c", "--env", "classic/CartPole-v1", "--study", file}, tc.args...)
		if _, _, err := execute(t, t.Context(), args...); err == nil || err.Error() != tc.want {
			t.Errorf("trainer %s: %v, want %s", strings.Join(args, " "), err, tc.want)
		}
	}
}

// content reads a file.
func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
