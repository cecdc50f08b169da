package core

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/run"
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

// trainedIn returns the folder of a training by exactArgs.
func trainedIn(t *testing.T, algo string, more ...string) string {
	t.Helper()
	folder := t.TempDir()
	mustExecute(t, exactArgs(algo, folder, more...)...)
	return filepath.Join(folder, algo, "classic-CartPole-v1_1")
}

// TestResumeKeeps: what makes a training what it is cannot be changed when it is resumed, and nothing in
// its folder is changed by the attempt.
func TestResumeKeeps(t *testing.T) {
	dir := trainedIn(t, "ppo", "--env-kwargs", "infinite_bounds:true", "--eval-env-kwargs", "infinite_bounds:true")
	checkpoint := filepath.Join(dir, "rl_model_256_steps.safetensors")
	conf := envstest.TempFile(t, "ppo.yml", "gamma: 0.5\n")
	before := contents(t, dir)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--algo", "a2c"}, `--algo "a2c", but the training began with "ppo"`},
		{[]string{"--env", "k8s/GangWindow-v0"}, `--env "k8s/GangWindow-v0", but the training began with "classic/CartPole-v1"`},
		{[]string{"--seed", "4"}, "--seed 4, but the training began with 3"},
		{[]string{"--env-kwargs", "infinite_bounds:false"}, `--env-kwargs {"infinite_bounds":false}, but`},
		{[]string{"--eval-env-kwargs", "infinite_bounds:false"}, `--eval-env-kwargs {"infinite_bounds":false}, but`},
		{[]string{"--eval-episodes", "3"}, "--eval-episodes 3, but the training began with 2"},
		{[]string{"--imitate", "random"}, `--imitate "random", but the training began with ""`},
		{[]string{"--params", "gamma:0.9"}, "gamma is 0.9, but the training began with 0.98"},
		{[]string{"--conf-file", conf}, "gamma is 0.5, but the training began with 0.98"},
		{[]string{"--params", "n_envs:4"}, "n_envs is 4, but the training began with 2"},
		{[]string{"--params", "n_steps:32"}, "n_steps is 32, but the training began with 16"},
		{[]string{"--params", "normalize:{norm_reward: false}"}, "norm_reward is false, but the training began with true"},
		{[]string{"-n", "200"}, "--n-timesteps 200, but the checkpoint has 256 timesteps already"},
		{[]string{"-f", t.TempDir()}, "a resumed training writes to the folder of its checkpoint"},
		{[]string{"--seeds", "1..2"}, "which is one training"},
		{[]string{"--params", "gama:0.9"}, `unknown field "gama"`},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"train", "--resume", checkpoint}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), checkpoint) {
			t.Errorf("%q: %v, want an error with %q and the file's name", tc.args, err, tc.want)
		}
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("the folder (-before +after):\n%s", diff)
	}
	// What it began with may be said again.
	mustExecute(t, exactArgs("ppo", filepath.Dir(filepath.Dir(dir)), "--env-kwargs", "infinite_bounds:true", "--resume", checkpoint)...)
}

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		if !e.IsDir() {
			files[e.Name()] = envstest.Read(t, filepath.Join(dir, e.Name()))
		}
	}
	return files
}

// TestResumeRecordsChanges resumes the older of two checkpoints with other options: the folder then
// describes that training, and what the other wrote later is aside.
func TestResumeRecordsChanges(t *testing.T) {
	dir := trainedIn(t, "ppo")
	began, err := run.ReadArgs(dir)
	if err != nil {
		t.Fatal(err)
	}
	checkpoint := filepath.Join(dir, "rl_model_128_steps.safetensors")
	old := envstest.Read(t, filepath.Join(dir, "rl_model_256_steps.safetensors"))
	_, stderr, err := execute(t, context.Background(), "train", "--resume", checkpoint, "-n", "320", "--params", "learning_rate:lin_0.002",
		"--save-freq", "192", "--eval-freq", "64", "--json")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"n_timesteps is 320, was 384", `learning_rate is "lin_0.002", was "lin_0.001"`, "save_freq is 192, was 128", "eval_freq is 64, was 128",
		"superseded: rl_model_256_steps.safetensors, rl_model_384_steps.safetensors, classic-CartPole-v1.safetensors, learning_curve.png"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("standard error lacks %q:\n%s", want, stderr)
		}
	}
	h, err := run.ReadHyperparams("ppo", "none", filepath.Join(dir, "config.yml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := h.Values()
	if err != nil {
		t.Fatal(err)
	}
	if values["n_timesteps"] != 320 || values["learning_rate"] != "lin_0.002" {
		t.Errorf("config.yml has n_timesteps %v and learning_rate %v, want 320 and lin_0.002", values["n_timesteps"], values["learning_rate"])
	}
	now, err := run.ReadArgs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if now.SaveFreq != 192 || now.EvalFreq != 64 || now.Seed != 3 || now.Command != began.Command || len(now.Resumed) != 1 ||
		now.Resumed[0].Timesteps != 128 || !strings.Contains(now.Resumed[0].Command, "--n-timesteps 320") {
		t.Errorf("args.yml has %+v, want save_freq 192, eval_freq 64, the first command %q and one of timestep 128", now, began.Command)
	}
	if envstest.Read(t, filepath.Join(dir, "superseded", "rl_model_256_steps.safetensors")) != old {
		t.Error("the later checkpoint is not in superseded")
	}
	var names []string
	for name := range contents(t, dir) {
		if strings.HasSuffix(name, "_steps.safetensors") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"rl_model_128_steps.safetensors", "rl_model_192_steps.safetensors"}, names); diff != "" {
		t.Errorf("checkpoints (-want +got):\n%s", diff)
	}
	if n := clitest.Timesteps(t, filepath.Join(dir, "classic-CartPole-v1.safetensors")); n != 320 {
		t.Errorf("the last model has %d timesteps, want 320", n)
	}
	// The folder alone stands for its newest checkpoint, which now has the changes.
	mustExecute(t, "train", "--resume", dir, "-n", "384", "--json")
	if now, err = run.ReadArgs(dir); err != nil || now.SaveFreq != 192 || len(now.Resumed) != 2 || now.Resumed[1].Timesteps != 320 {
		t.Errorf("args.yml after another resumption has %+v, %v", now, err)
	}
}

// TestResumeFolderOfSeeds: --resume with the folder of --seeds trains those that are missing.
func TestResumeFolderOfSeeds(t *testing.T) {
	folder := t.TempDir()
	mustExecute(t, append(withoutSeed(exactArgs("a2c", folder)), "--seeds", "1,2")...)
	dir := filepath.Join(folder, "a2c", "classic-CartPole-v1_1")
	second := filepath.Join(dir, "seed_2", "classic-CartPole-v1.safetensors")
	want := envstest.Read(t, second)
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	res := clitest.Decode[run.SeedsResult](t, mustExecute(t, "train", "--resume", dir, "--json"))
	if len(res.Seeds) != 2 || res.Folder != dir || envstest.Read(t, second) != want {
		t.Errorf("%+v, want two seeds in %s and the model of the second again", res, dir)
	}
}

// TestResumeNewest: the same command, run again, resumes what it can: to the bytes of an uninterrupted training, once
// there is a checkpoint; it starts over before that, and does nothing after the end.
func TestResumeNewest(t *testing.T) {
	folder := t.TempDir()
	args := exactArgs("ppo", folder, "--resume-newest")
	mustExecute(t, args...)
	first := filepath.Join(folder, "ppo", "classic-CartPole-v1_1")
	final := filepath.Join(first, "classic-CartPole-v1.safetensors")
	want := envstest.Read(t, final)
	mustExecute(t, args...) // is complete
	if got, err := os.ReadFile(final); err != nil || string(got) != want {
		t.Errorf("the complete training has changed: %v", err)
	}
	// As if it had been killed after its first checkpoint.
	all := clitest.Checkpoints(t, first, 1<<30)
	for _, path := range append(all[1:], final) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	// A later one was killed before its first.
	if err := os.Mkdir(filepath.Join(folder, "ppo", "classic-CartPole-v1_2"), 0o755); err != nil {
		t.Fatal(err)
	}
	mustExecute(t, args...)
	if got, err := os.ReadFile(final); err != nil || string(got) != want {
		t.Errorf("the resumed training differs from the uninterrupted one: %v", err)
	}
	if err := os.RemoveAll(first); err != nil {
		t.Fatal(err)
	}
	mustExecute(t, args...)
	found, err := filepath.Glob(filepath.Join(folder, "ppo", "*", "classic-CartPole-v1.safetensors"))
	if err != nil || len(found) != 1 {
		t.Errorf("without a checkpoint: models %v, %v; want one of a training that started over", found, err)
	}
	if _, _, err := execute(t, context.Background(), append(args, "--resume", first)...); err == nil || !strings.Contains(err.Error(), "give one of them") {
		t.Errorf("--resume and --resume-newest: %v", err)
	}
}

// TestResumeLongerKilled: a complete training that was resumed for longer and killed after a checkpoint resumes from that
// checkpoint and not from its earlier end, also as one of several seeds.
func TestResumeLongerKilled(t *testing.T) {
	folder := t.TempDir()
	mustExecute(t, append(withoutSeed(exactArgs("ppo", folder)), "--seeds", "1,2")...)
	dir := filepath.Join(folder, "ppo", "classic-CartPole-v1_1")
	one := filepath.Join(dir, "seed_1")
	final := filepath.Join(one, "classic-CartPole-v1.safetensors")
	end := envstest.Read(t, final)
	longer := []string{"train", "-n", "640", "--json", "--resume"}
	mustExecute(t, append(longer, one)...)
	want := envstest.Read(t, final)
	superseded := filepath.Join(one, "superseded", "rl_model_512_steps.safetensors")
	for _, resumed := range []string{one, dir} {
		envstest.Write(t, final, end) // as if it had been killed after that checkpoint
		if err := os.Remove(filepath.Join(one, "rl_model_640_steps.safetensors")); err != nil {
			t.Fatal(err)
		}
		mustExecute(t, append(longer, resumed)...)
		if _, err := os.Stat(superseded); !os.IsNotExist(err) || envstest.Read(t, final) != want {
			t.Errorf("resumed %s: the later checkpoint has been superseded (%v), or the model is another", filepath.Base(resumed), err)
		}
	}
}

// TestResumeNewestAfterTheEnd: the same command does nothing after the end of a training whose last rollout took it
// beyond --n-timesteps. Fewer timesteps than it has are an error.
func TestResumeNewestAfterTheEnd(t *testing.T) {
	folder := t.TempDir()
	args := exactArgs("ppo", folder, "--resume-newest", "-n", "300") // rollouts of 32 steps
	mustExecute(t, args...)
	final := filepath.Join(folder, "ppo", "classic-CartPole-v1_1", "classic-CartPole-v1.safetensors")
	want := envstest.Read(t, final)
	res := clitest.Decode[run.Result](t, mustExecute(t, args...))
	if res.Timesteps != 320 || envstest.Read(t, final) != want {
		t.Errorf("%d timesteps, want 320 and the same model", res.Timesteps)
	}
	if _, _, err := execute(t, context.Background(), append(args, "-n", "200")...); err == nil || !strings.Contains(err.Error(), "has 320 timesteps already") {
		t.Errorf("-n 200: %v", err)
	}
}

// TestResumeWithLowerThreshold: a training whose best evaluation, not the last one, has reached the threshold stops, and
// says which one it was.
func TestResumeWithLowerThreshold(t *testing.T) {
	dir := trainedIn(t, "a2c")
	path := filepath.Join(dir, "evaluations.csv")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(text), "\n")
	rows[1] = rows[1][:strings.Index(rows[1], ",")] + ",400,0,2,400,400" // the first evaluation
	envstest.Write(t, path, strings.Join(rows, "\n"))
	out := mustExecute(t, "train", "--resume", filepath.Join(dir, "rl_model_260_steps.safetensors"), "--reward-threshold", "300")
	if want := "stopped: the mean return of an evaluation, 400.00, reached the threshold 300.00\n"; !strings.Contains(out, want) {
		t.Errorf("%s\nwant %q", out, want)
	}
}
