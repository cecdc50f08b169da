package core

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// small are arguments of a training of a few seconds.
func small(folder string, more ...string) []string {
	return append([]string{"train", "--algo", "ppo", "--env", "k8s/GangWindow-v0", "--env-kwargs", "steps:20", "-f", folder,
		"--params", "n_envs:4", "--params", "n_steps:16", "--params", "batch_size:32", "--params", "n_epochs:2",
		"--eval-freq", "128", "--eval-episodes", "3", "--save-freq", "128", "--seed", "5"}, more...)
}

// TestTrainReport: the last lines of a training name its score and the files that there are, which
// make run reads.
func TestTrainReport(t *testing.T) {
	folder := t.TempDir()
	out := mustExecute(t, small(folder, "-n", "256")...)
	if !regexp.MustCompile(`(?m)^ppo on k8s/GangWindow-v0: 256 steps in \d+ s, mean return -?[\d.]+ ± [\d.]+ over 3 validation episodes`).MatchString(out) {
		t.Errorf("no line with the score:\n%s", out)
	}
	for _, what := range []string{"best model", "last model", "logs", "learning curve"} {
		found := regexp.MustCompile(`(?m)^` + what + ` +(/.*)$`).FindStringSubmatch(out)
		if found == nil || !strings.HasPrefix(found[1], folder) {
			t.Errorf("no %s below %s:\n%s", what, folder, out)
			continue
		}
		if _, err := os.Stat(found[1]); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if regexp.MustCompile(`(?m)^comparison`).MatchString(out) {
		t.Errorf("a comparison that was not made:\n%s", out)
	}
}

func TestTrainJSON(t *testing.T) {
	folder := t.TempDir()
	out := mustExecute(t, small(folder, "-n", "256", "--json")...)
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("standard output is not one JSON document: %v\n%s", err, out)
	}
	for key, want := range map[string]any{"algo": "ppo", "env": "k8s/GangWindow-v0", "timesteps": 256.0, "eval_episodes": 3.0} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
	for _, key := range []string{"seconds", "eval_mean", "eval_std"} {
		if v, ok := got[key].(float64); !ok || math.IsNaN(v) {
			t.Errorf("%s = %v, want a number", key, got[key])
		}
	}
	if len(got) != 8 {
		t.Errorf("%d keys, want 8: %v", len(got), got)
	}
	path, _ := got["model"].(string)
	if _, err := models.ReadFile(path); err != nil {
		t.Errorf("model: %v", err)
	}
	checkFolder(t, filepath.Dir(path))
	// The model plays the same episodes to the same mean.
	out = mustExecute(t, "eval", "--model", path, "--episodes", "3", "--seed", "1000000000", "--json")
	again := clitest.Decode[evalResult](t, out)
	if again.Mean != got["eval_mean"] || again.Std != got["eval_std"] || len(again.Returns) != 3 || again.EnvKwargs["split"] != "heldout" {
		t.Errorf("eval of the model: %+v, want mean %v and std %v on the held-out split", again, got["eval_mean"], got["eval_std"])
	}
}

// TestEveryAlgorithm trains each algorithm with both engines and plays its model.
func TestEveryAlgorithm(t *testing.T) {
	for _, algo := range algorithms.Names(nil) {
		for _, engine := range []string{play.EngineFused, play.EngineGorgonia} {
			t.Run(algo+" "+engine, func(t *testing.T) {
				if testing.Short() && algo == "ppo_lstm" && engine == play.EngineGorgonia {
					t.Skip("Gorgonia's LSTM takes a minute under the race detector; run without -short")
				}
				args := []string{"train", "--algo", algo, "--engine", engine, "--env", "classic/CartPole-v1", "-n", "1024",
					"--params", "n_envs:2", "--eval-freq", "512", "--eval-episodes", "2", "-f", t.TempDir(), "--json"}
				switch algo {
				case "dqn":
					args = append(args, "--params", "learning_starts:64", "--params", "train_freq:8", "--params", "gradient_steps:2", "--params", "net_arch:[16]")
				case "ppo", "ppo_lstm":
					args = append(args, "--params", "batch_size:64", "--params", "n_epochs:1")
				}
				res := clitest.Decode[run.Result](t, mustExecute(t, args...))
				if res.Algo != algo || res.Timesteps < 1024 || res.EvalMean < 1 {
					t.Errorf("train: %+v", res)
				}
				eval := clitest.Decode[evalResult](t, mustExecute(t, "eval", "--model", res.Model, "--episodes", "2", "--seed", "1000000000", "--json"))
				if eval.Policy != algo || engine == play.EngineFused && eval.Mean != res.EvalMean { // another engine rounds differently
					t.Errorf("eval of the model: %+v, want mean %v", eval, res.EvalMean)
				}
			})
		}
	}
}

// checkFolder sees that a log folder has what Stable-Baselines3 and RL Zoo users look for.
func checkFolder(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"config.yml", "args.yml", "progress.csv", "monitor.csv", "evaluations.csv", "learning_curve.png",
		"best_model.safetensors", "k8s-GangWindow-v0.safetensors", "rl_model_128_steps.safetensors", "rl_model_256_steps.safetensors"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	tags := map[string]bool{}
	for _, e := range clitest.Events(t, dir) {
		for _, s := range e.Scalars {
			tags[s.Tag] = true
		}
	}
	for _, tag := range []string{"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps", "time/iterations", "train/loss", "train/approx_kl",
		"train/clip_fraction", "train/entropy_loss", "train/explained_variance", "train/learning_rate", "train/n_updates",
		"train/policy_gradient_loss", "train/value_loss", "eval/mean_reward", "eval/mean_ep_length"} {
		if !tags[tag] {
			t.Errorf("no tag %s among the events", tag)
		}
	}
}

// TestInterruptSaves cancels a training and resumes from the checkpoint that the message names.
func TestInterruptSaves(t *testing.T) {
	folder := t.TempDir()
	ctx := clitest.CancelWhen(t, func() bool { return clitest.WithEpisodes(folder) > 0 })
	_, _, err := execute(t, ctx, small(folder, "-n", "100000000", "--json", "--save-freq", "0", "--eval-freq", "0")...)
	if !errors.Is(err, cli.ErrInterrupted) {
		t.Fatalf("interrupted training: %v, want errInterrupted", err)
	}
	m := regexp.MustCompile(`interrupted at (\d+) timesteps; go on with --resume (\S+)`).FindStringSubmatch(err.Error())
	if m == nil {
		t.Fatalf("the message %q does not say how to go on", err)
	}
	f, err := models.ReadFile(m[2])
	if err != nil {
		t.Fatal(err)
	}
	if f.Meta.Timesteps <= 0 || f.Meta.Timesteps%64 != 0 {
		t.Errorf("the checkpoint has %d timesteps, want whole rollouts of 64", f.Meta.Timesteps)
	}
}

func TestCompareJSON(t *testing.T) {
	folder := t.TempDir()
	csv, plot := filepath.Join(folder, "c.csv"), filepath.Join(folder, "c.png")
	out := mustExecute(t, "compare", "--env", "k8s/GangWindow-v0", "--env-kwargs", "steps:30", "--episodes", "4",
		"--baseline", "static_2", "--baseline", "never_reconfigure_1000m", "--baseline", "one_time", "--baseline", "random", "--csv", csv, "--plot", plot, "--json")
	c := clitest.Decode[play.Comparison](t, out)
	var order []string
	for _, r := range c.Rows {
		order = append(order, r.Policy)
		if !(r.Low <= r.Mean && r.Mean <= r.High) {
			t.Errorf("%s: mean %v outside its interval [%v, %v]", r.Policy, r.Mean, r.Low, r.High)
		}
	}
	if diff := cmp.Diff([]string{"one_time", "static_2", "random", "never_reconfigure_1000m"}, order); diff != "" {
		t.Errorf("ranking (-want +got):\n%s", diff)
	}
	// The clairvoyant one is not the best baseline.
	if c.BestBaseline != "static_2" || c.Rows[1].Difference != nil || c.Rows[0].Difference == nil || c.Rows[0].Difference.Mean >= 0 {
		t.Errorf("best baseline %q, differences %v and %v", c.BestBaseline, c.Rows[0].Difference, c.Rows[1].Difference)
	}
	for _, path := range []string{csv, plot} {
		if len(envstest.Read(t, path)) == 0 {
			t.Errorf("%s is empty", path)
		}
	}
}

func TestEnvsJSON(t *testing.T) {
	var all []envDescription
	if err := json.Unmarshal([]byte(mustExecute(t, "envs", "--json")), &all); err != nil || len(all) < 2 {
		t.Fatalf("envs --json: %v, %d entries", err, len(all))
	}
	text := mustExecute(t, "envs", "k8s/GangWindow-v0")
	for _, want := range []string{"Box[41]", "Discrete(4)", "penalty_model", "steps_since_plan", "dynamic_mpc", "total_s"} {
		if !strings.Contains(text, want) {
			t.Errorf("envs k8s/GangWindow-v0 does not mention %q", want)
		}
	}
}

// TestModelOfOtherSpaces sees that a model is refused by environments that it does not fit.
func TestModelOfOtherSpaces(t *testing.T) {
	folder := t.TempDir()
	mustExecute(t, small(folder, "-n", "64", "--json")...)
	path := filepath.Join(folder, "ppo", "k8s-GangWindow-v0_1", "k8s-GangWindow-v0.safetensors")
	for _, args := range [][]string{
		{"eval", "--model", path, "--env-kwargs", "windows:5", "--episodes", "2"},
		{"compare", "--model", path, "--env", "classic/CartPole-v1", "--episodes", "2"},
	} {
		if _, _, err := execute(t, context.Background(), args...); err == nil || !(errors.Is(err, models.ErrMismatch) || strings.Contains(err.Error(), "unknown option")) {
			t.Errorf("trainer %s: %v, want ErrMismatch", strings.Join(args, " "), err)
		}
	}
}
