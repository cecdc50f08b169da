package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestSeedThatFails: others are trained to their end, and the error names the seed.
func TestSeedThatFails(t *testing.T) {
	args := brokenArgs("ppo", t.TempDir(), "-n", "128", "--env-kwargs", "after:20", "--seeds", "1,2", "--compare", "2") // of which nothing is left
	out, _, err := execute(t, context.Background(), args...)
	if err == nil || !strings.Contains(err.Error(), "seed 1: after 76 timesteps: environment 2: ") || !strings.Contains(err.Error(), "seed 2: after 76 timesteps: environment 2: ") {
		t.Errorf("%v, want the failure of both seeds", err)
	}
	res := clitest.Decode[run.SeedsResult](t, out)
	if len(res.Seeds) != 2 || !strings.Contains(res.Seeds[1].Error, "environment 2") {
		t.Errorf("result %+v, want both failures", res)
	}
}

func TestRewardThreshold(t *testing.T) {
	// An untrained policy on CartPole keeps the pole up for at least 8 steps, so the first
	// evaluation, after 512 steps, reaches 5.
	args := []string{"train", "--algo", "ppo", "--env", "classic/CartPole-v1", "-n", "4096", "--eval-freq", "500", "--eval-episodes", "2", "--json"}
	for threshold, want := range map[float64]int{5: 512, 501: 4096} {
		out := mustExecute(t, append(args, "--reward-threshold", fmt.Sprint(threshold), "-f", t.TempDir())...)
		res := clitest.Decode[run.Result](t, out)
		if res.Timesteps != want || res.Stopped != (want < 4096) {
			t.Errorf("threshold %v: %d timesteps, stopped %t; want %d", threshold, res.Timesteps, res.Stopped, want)
		}
	}
	// The only evaluation is that of the last model, which stops nothing.
	args[8] = "5000"
	res := clitest.Decode[run.Result](t, mustExecute(t, append(args, "--reward-threshold", "5", "-f", t.TempDir())...))
	if res.Timesteps != 4096 || res.Stopped || res.EvalMean < 5 {
		t.Errorf("%+v, want 4096 timesteps, not stopped, and a mean of at least 5", res)
	}
}

func TestSeedsErrors(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"train", "--seeds", "5..1"}, "want a range such as 1..5"},
		{[]string{"train", "--seeds", "1..2", "--seed", "1"}, "goes without --seed"},
		{[]string{"train", "--seeds", "1..2", "--n-jobs", "-1"}, "--n-jobs -1"},
		{[]string{"train", "--n-threads", "-1"}, "--n-threads -1"},
		{[]string{"train", "--seeds", "1..2", "--params", "batch_size:100", "-f", t.TempDir()}, "no multiple of batch_size 100"},
		{[]string{"train", "--reward-threshold", "5", "--eval-freq", "0"}, "--eval-freq 0"},
		{[]string{"enjoy"}, "want one of --model and --baseline"},
		{[]string{"enjoy", "--env", "classic/CartPole-v1", "--baseline", "random", "--episodes", "0"}, "--episodes 0"},
		{[]string{"enjoy", "--env", "classic/CartPole-v1", "--baseline", "random", "--fps", "-1"}, "--fps -1"},
		{[]string{"enjoy", "--env", "test/Broken-v0", "--baseline", "random"}, "--no-render"},
	} {
		_, _, err := execute(t, context.Background(), tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("trainer %s: %v, want an error with %q", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}

// TestComparedSeedsAreExact: JSON with a comparison beside it has the digits of a seed above 2^53.
func TestComparedSeedsAreExact(t *testing.T) {
	args := append(withoutSeed(small(t.TempDir(), "-n", "64", "--json")), "--seeds", "9007199254740993", "--compare", "2")
	res := clitest.Decode[struct {
		Seeds      []struct{ Seed uint64 }
		Comparison *play.Comparison
	}](t, mustExecute(t, args...))
	if len(res.Seeds) != 1 || res.Seeds[0].Seed != 9007199254740993 || res.Comparison == nil {
		t.Errorf("%+v, want the seed 9007199254740993 and a comparison", res)
	}
}

// withoutSeed returns the arguments without --seed.
func withoutSeed(args []string) []string {
	i := slices.Index(args, "--seed")
	return slices.Delete(args, i, i+2)
}
