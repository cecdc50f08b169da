package core

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestImitate starts each algorithm from a baseline: what it learned shows in the first
// evaluation, the log has it, and two trainings are equal bit for bit.
func TestImitate(t *testing.T) {
	for _, algo := range algorithms.Names(nil) {
		t.Run(algo, func(t *testing.T) {
			var models []string
			for range 2 {
				args := []string{"train", "--algo", algo, "--env", "k8s/GangWindow-v0", "--env-kwargs", "steps:30", "-f", t.TempDir(), "--json", "-n", "240",
					"--eval-freq", "0", "--eval-episodes", "2", "--imitate", "static_2", "--imitate-steps", "300", "--params", "n_envs:2", "--params", "net_arch:[16]"}
				switch algo {
				case "ppo", "ppo_lstm":
					args = append(args, "--params", "n_steps:32", "--params", "batch_size:32", "--params", "n_epochs:1")
				case "dqn":
					args = append(args, "--params", "learning_starts:64")
				}
				res := clitest.Decode[run.Result](t, mustExecute(t, args...))
				models = append(models, envstest.Read(t, res.Model))
				dir := filepath.Dir(res.Model)
				if log := envstest.Read(t, filepath.Join(dir, "progress.csv")); !strings.Contains(log, "imitation/accuracy") {
					t.Errorf("no imitation/accuracy in progress.csv:\n%s", log)
				}
				if args := envstest.Read(t, filepath.Join(dir, "args.yml")); !strings.Contains(args, "imitate: static_2") {
					t.Errorf("no baseline in args.yml:\n%s", args)
				}
			}
			if models[0] != models[1] {
				t.Error("two trainings with one seed differ")
			}
		})
	}
}

// TestImitateSearch: a search is imitated in rounds. From the second on its base is the model so far, and two trainings
// are equal bit for bit.
func TestImitateSearch(t *testing.T) {
	var last []string
	for range 2 {
		dir := t.TempDir()
		_, out, err := execute(t, t.Context(), "train", "--algo", "ppo", "--env", balanceEnv, "-f", dir, "-n", "64", "--eval-freq", "0", "--eval-episodes", "2",
			"--imitate", "rollout:base=Random,k=3,m=2,horizon=2", "--imitate-steps", "80", "--imitate-epochs", "2", "--imitate-rounds", "3",
			"--params", "n_envs:2", "--params", "net_arch:[16]", "--params", "n_steps:32", "--params", "batch_size:32", "--params", "n_epochs:1")
		if err != nil {
			t.Fatal(err)
		}
		for k, base := range []string{"Random", "imitation_1.safetensors", "imitation_2.safetensors"} {
			if want := fmt.Sprintf("round %d: rollout over %s\n", k+1, base); !strings.Contains(out, want) {
				t.Errorf("no line %q in\n%s", want, out)
			}
		}
		dir = filepath.Join(dir, "ppo", "k8s-PodBalance-v0_1")
		first, second := envstest.Read(t, filepath.Join(dir, "imitation_1.safetensors")), envstest.Read(t, filepath.Join(dir, "imitation_2.safetensors"))
		if first == second {
			t.Error("the second round has changed nothing")
		}
		if args := envstest.Read(t, filepath.Join(dir, "args.yml")); !strings.Contains(args, "imitate_rounds: 3") {
			t.Errorf("no rounds in args.yml:\n%s", args)
		}
		last = append(last, second+envstest.Read(t, filepath.Join(dir, "k8s-PodBalance-v0.safetensors")))
	}
	if last[0] != last[1] {
		t.Error("two trainings with one seed differ")
	}
}

func TestImitateRefuses(t *testing.T) {
	train := func(args ...string) []string {
		return append([]string{"train", "--env", "k8s/GangWindow-v0", "-n", "64", "-f", t.TempDir()}, args...)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{train("--imitate", "mpc"), `no baseline "mpc"; it has`},
		{train("--imitate", "static_2", "--url", "ws://127.0.0.1:1"), "--imitate goes without --url"},
		{train("--imitate", "static_2", "--imitate-steps", "0"), "--imitate-steps 0"},
		{train("--imitate", "static_2", "--imitate-epochs", "-1"), "--imitate-epochs -1"},
		{train("--imitate", "static_2", "--imitate-rounds", "2"), "--imitate-rounds 2 of static_2: only a search improves"},
		{train("--imitate", "rollout:base=static_2", "--imitate-rounds", "0"), "--imitate-rounds 0"},
		{train("--imitate", "rollout:base=static_2,ms=5"), "depend on the machine"},
		{train("--imitate", "rollout:base=static_2,k=1"), "k=1"},
		{train("--imitate", "rollout:base=static_2"), "cannot be resampled"},
		{train("--imitate", "posterior:base=a.safetensors", "--imitate-rounds", "2"), "does not score gains"},
		{train("--imitate", "static_2", "--imitate-learning-rate", "fast"), "--imitate-learning-rate: agents: schedule \"fast\""},
		{train("--imitate", "static_2", "--imitate-weight-decay", "-1"), "--imitate-weight-decay -1: want 0 or more"},
		{train("--imitate", "static_2", "--imitate-weight-decay", "NaN"), "--imitate-weight-decay NaN: want 0 or more"},
		{train("--imitate", "static_2", "--imitate-learning-rate", "lin_0"), "--imitate-learning-rate: \"lin_0\", want above 0"},
	} {
		if _, _, err := execute(t, context.Background(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("trainer %s: %v, want an error with %q", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}

// TestImitateTells: of actions of a Box the report gives the likelihood, since hardly any are equal.
func TestImitateTells(t *testing.T) {
	for env, tc := range map[string]struct{ baseline, want string }{
		"k8s/GangForecast-v0": {"true_sizes", "imitated true_sizes for 300 steps: negative log-likelihood of its actions "},
		"k8s/GangWindow-v0":   {"static_2", "imitated static_2 for 300 steps: the same action in "},
	} {
		_, out, err := execute(t, t.Context(), "train", "--algo", "a2c", "--env", env, "--env-kwargs", "steps:30", "-f", t.TempDir(), "-n", "16", "--eval-freq", "0",
			"--eval-episodes", "1", "--imitate", tc.baseline, "--imitate-steps", "300", "--params", "n_envs:2", "--params", "net_arch:[16]")
		if err != nil || !strings.Contains(out, tc.want) {
			t.Errorf("%s: %v, no %q in\n%s", env, err, tc.want, out)
		}
	}
}
