package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/tracking"
	"github.com/kubernasium/kubernasium/version"
)

// execute runs the command line and returns what it prints on standard output.
func execute(t *testing.T, ctx context.Context, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errOut)
	err = executeRoot(ctx, root)
	return out.String(), errOut.String(), err
}

func mustExecute(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr, err := execute(t, context.Background(), args...)
	if err != nil {
		t.Fatalf("trainer %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return out
}

// small are arguments of a training of a few seconds.
func small(folder string, more ...string) []string {
	return append([]string{"train", "--algo", "ppo", "--env", "k8s/GangWindow-v0", "--env-kwargs", "steps:20", "-f", folder,
		"--params", "n_envs:4", "--params", "n_steps:16", "--params", "batch_size:32", "--params", "n_epochs:2",
		"--eval-freq", "128", "--eval-episodes", "3", "--save-freq", "128", "--seed", "5"}, more...)
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
	var again evalResult
	if err := json.Unmarshal([]byte(out), &again); err != nil {
		t.Fatal(err)
	}
	if again.Mean != got["eval_mean"] || again.Std != got["eval_std"] || len(again.Returns) != 3 || again.EnvKwargs["split"] != "heldout" {
		t.Errorf("eval of the model: %+v, want mean %v and std %v on the held-out split", again, got["eval_mean"], got["eval_std"])
	}
}

// TestEveryAlgorithm trains each algorithm with both engines and plays its model.
func TestEveryAlgorithm(t *testing.T) {
	for _, algo := range algorithms.Names(nil) {
		for _, engine := range []string{engineFused, engineGorgonia} {
			t.Run(algo+" "+engine, func(t *testing.T) {
				args := []string{"train", "--algo", algo, "--engine", engine, "--env", "classic/CartPole-v1", "-n", "1024",
					"--params", "n_envs:2", "--eval-freq", "512", "--eval-episodes", "2", "-f", t.TempDir(), "--json"}
				switch algo {
				case "dqn":
					args = append(args, "--params", "learning_starts:64", "--params", "train_freq:8", "--params", "gradient_steps:2", "--params", "net_arch:[16]")
				case "ppo", "ppo_lstm":
					args = append(args, "--params", "batch_size:64", "--params", "n_epochs:1")
				}
				var res trainResult
				if err := json.Unmarshal([]byte(mustExecute(t, args...)), &res); err != nil {
					t.Fatal(err)
				}
				if res.Algo != algo || res.Timesteps < 1024 || res.EvalMean < 1 {
					t.Errorf("train: %+v", res)
				}
				var eval evalResult
				if err := json.Unmarshal([]byte(mustExecute(t, "eval", "--model", res.Model, "--episodes", "2", "--seed", "1000000000", "--json")), &eval); err != nil {
					t.Fatal(err)
				}
				if eval.Policy != algo || engine == engineFused && eval.Mean != res.EvalMean { // another engine rounds differently
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
	events, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(events) != 1 {
		t.Fatalf("event files %v, %v; want one", events, err)
	}
	f, err := os.Open(events[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := tracking.ReadEvents(f)
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]bool{}
	for _, e := range list {
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

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestInterruptSaves cancels a training and resumes from the checkpoint that the message names.
func TestInterruptSaves(t *testing.T) {
	folder := t.TempDir()
	ctx := cancelWhen(t, func() bool { return withEpisodes(folder) > 0 })
	_, _, err := execute(t, ctx, small(folder, "-n", "100000000", "--json", "--save-freq", "0", "--eval-freq", "0")...)
	if !errors.Is(err, errInterrupted) {
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
	var c comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
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
	// The oracle is a bound, not the best baseline.
	if c.BestBaseline != "static_2" || c.Rows[1].Difference != nil || c.Rows[0].Difference == nil || c.Rows[0].Difference.Mean >= 0 {
		t.Errorf("best baseline %q, differences %v and %v", c.BestBaseline, c.Rows[0].Difference, c.Rows[1].Difference)
	}
	for _, path := range []string{csv, plot} {
		if len(read(t, path)) == 0 {
			t.Errorf("%s is empty", path)
		}
	}
}

func TestVerdict(t *testing.T) {
	row := func(policy, kind string, values ...float64) comparisonRow {
		return comparisonRow{Policy: policy, Kind: kind, Mean: tracking.Mean(values), values: values}
	}
	for _, tc := range []struct {
		name  string
		lower bool
		model []float64
		want  string
	}{
		{"better, lower", true, []float64{90, 91, 89}, "m is better than the best baseline, b, by 10.00 %"},
		{"worse, lower", true, []float64{110, 111, 109}, "m is worse than the best baseline, b, by 10.00 %"},
		// Of 102, 130 and 79 the mean is 103.67, which is 3.67 % above 100: the sign of the table.
		{"noise, lower", true, []float64{102, 130, 79}, "m is not better than the best baseline, b: the difference of +3.67 % "},
		{"noise, higher", false, []float64{102, 130, 79}, "m is not better than the best baseline, b: the difference of +3.67 % "},
		{"better, higher", false, []float64{110, 111, 109}, "m is better than the best baseline, b, by 10.00 %"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := comparison{Lower: tc.lower, Rows: []comparisonRow{row("m", kindModel, tc.model...), row("b", kindBaseline, 100, 101, 99)}}
			c.rank()
			if len(c.Verdict) != 1 || !strings.HasPrefix(c.Verdict[0], tc.want) {
				t.Errorf("verdict %q, want %s …", c.Verdict, tc.want)
			}
			m := c.Rows[slices.IndexFunc(c.Rows, func(r comparisonRow) bool { return r.Kind == kindModel })]
			if d := m.Difference; d == nil || math.Abs(d.Mean-(tracking.Mean(tc.model)-100)) > 1e-9 {
				t.Errorf("difference %+v, want the model's mean less 100", d)
			}
		})
	}
}

// TestSeveralModels: differences of -10 and -14 have mean -12 and, with Student's t of 12.706
// for one degree of freedom and a standard error of 2, the interval -12 ± 25.41.
func TestSeveralModels(t *testing.T) {
	row := func(kind string, mean float64) comparisonRow {
		return comparisonRow{Policy: kind, Kind: kind, Mean: mean, values: []float64{mean - 1, mean, mean + 1}}
	}
	c := comparison{Lower: true, Rows: []comparisonRow{row(kindModel, 90), row(kindModel, 86), row(kindBaseline, 100)}}
	c.rank()
	if c.Models == nil || math.Abs(c.Models.Mean+12) > 1e-9 || math.Abs(c.Models.High-c.Models.Low-50.825) > 0.01 {
		t.Errorf("over models: %+v, want -12 ± 25.41", c.Models)
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

func TestReproduceGang(t *testing.T) {
	if dataFolder() == "" {
		t.Skipf("no data: set %s to the folder that holds gang/ to enable this test", dataVariable)
	}
	var results []map[string]any
	if err := json.Unmarshal([]byte(mustExecute(t, "reproduce", "gang", "--controller", "static", "--mode", "actual", "--window", "2", "--json")), &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 || results[0]["checkpoints"] != 199.0 {
		t.Fatalf("reproduce: %v, want one result with the published 199 checkpoints", results)
	}
	for _, key := range []string{"mode", "controller", "window", "lambda", "penalty", "steps", "duration", "checkpoints", "total", "published", "relative_error"} {
		if _, ok := results[0][key]; !ok {
			t.Errorf("no key %q", key)
		}
	}
	if e := results[0]["relative_error"]; e == nil || e.(float64) > 1e-8 {
		t.Errorf("relative error %v, want at most 1e-8", e)
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.safetensors")
	if err := os.WriteFile(garbage, []byte("no model"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"train", "--env", "k8s/GangWindov-v0"}, "did you mean k8s/GangWindow-v0?"},
		{[]string{"train", "--algo", "sac"}, `no algorithm "sac"; there is ppo, a2c, dqn, reinforce, ppo_lstm`},
		{[]string{"train", "--env-kwargs", "window:5", "-f", dir}, `unknown option "window"; did you mean "windows"?`},
		{[]string{"train", "--env-kwargs", "windows"}, `--env-kwargs "windows", want key:value`},
		{[]string{"train", "--params", "learning_rat:1"}, `unknown field "learning_rat"`},
		{[]string{"train", "--params", "batch_size:100", "-f", dir}, "no multiple of batch_size 100"},
		{[]string{"train", "-n", "0"}, "n_timesteps 0"},
		{[]string{"train", "--engine", "torch", "-f", dir}, `no engine "torch"; there are fused and gorgonia`},
		{[]string{"train", "--resume", garbage}, "garbage.safetensors"},
		{[]string{"train", "--eval-env-kwargs", "window:5", "-f", dir}, `unknown option "window"; did you mean "windows"?`},
		{[]string{"train", "--eval-freq", "-1", "-n", "64", "-f", dir}, "--eval-freq -1, --save-freq 100000: want at least 0"},
		{[]string{"train", "--save-freq", "-1", "-n", "64", "-f", dir}, "--save-freq -1: want at least 0"},
		{[]string{"train", "--compare", "-1", "-n", "64", "-f", dir}, "--compare -1, want 0"},
		{[]string{"train", "--compare", "1", "-n", "64", "-f", dir}, "--compare 1, want 0"},
		{[]string{"train", "--eval-episodes", "0", "-f", dir}, "eval-episodes 0"},
		{[]string{"train", "--algo", "dqn", "--params", "normalize:true", "-f", dir}, "hyperparameter normalize is true, and dqn does not normalize; ppo, a2c, reinforce, ppo_lstm do"},
		{[]string{"train", "--algo", "dqn", "--params", "normalize:{norm_obs: true}", "-f", dir}, "dqn does not normalize"},
		{[]string{"train", "--algo", "dqn", "--params", "normalize:false", "--params", "tau:-1", "-n", "64", "-f", dir}, "tau"},
		{[]string{"eval", "--env", "classic/CartPole-v1", "--baseline", "random", "--episodes", "0"}, "--episodes 0, want at least 1"},
		{[]string{"eval", "--env", "classic/CartPole-v1", "--baseline", "random", "--episodes", "-3"}, "--episodes -3, want at least 1"},
		{[]string{"compare", "--env", "classic/CartPole-v1", "--episodes", "0"}, "--episodes 0, want at least 2"},
		{[]string{"vpa", "forecaster", "--episodes", "0"}, "--episodes 0, want at least 1"},
		{[]string{"eval", "--model", garbage}, "garbage.safetensors"},
		{[]string{"eval"}, "want one of --model and --baseline"},
		{[]string{"eval", "--env", "k8s/GangWindow-v0", "--baseline", "mpc"}, `no baseline "mpc"; it has`},
		{[]string{"compare"}, "neither --env nor --model is given"},
		{[]string{"compare", "--env", "classic/CartPole-v1", "--episodes", "1"}, "--episodes 1, want at least 2"},
		{[]string{"reproduce", "gang", "--window", "3"}, "--window selects a single case and needs --controller"},
		{[]string{"reproduce", "gang", "--data", dir}, "workload_profiling.csv"},
	} {
		_, _, err := execute(t, context.Background(), tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("trainer %s: %v, want an error with %q", strings.Join(tc.args, " "), err, tc.want)
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

func TestVersion(t *testing.T) {
	out := mustExecute(t, "--version")
	for _, want := range []string{"trainer version " + version.Number + "\n", "\ncommit: ", "\ngo: " + runtime.Version()} {
		if !strings.Contains(out, want) {
			t.Errorf("trainer --version printed\n%s\nwithout %q", out, want)
		}
	}
}
