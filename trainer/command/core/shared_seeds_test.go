package core

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		var alone run.Result
		if err := json.Unmarshal([]byte(mustExecute(t, append(args, "--seed", seed, "-f", t.TempDir())...)), &alone); err != nil {
			t.Fatal(err)
		}
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
