package core

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// interruptedAfter runs the command line, interrupts it when the endless environments have made so
// many steps, and returns its error, which must be an interrupt, and its output.
func interruptedAfter(t *testing.T, steps int64, args ...string) (message, stdout string) {
	t.Helper()
	before := clitest.EndlessSteps.Load()
	stdout, _, err := execute(t, clitest.CancelWhen(t, func() bool { return clitest.EndlessSteps.Load() >= before+steps }), args...)
	if !errors.Is(err, cli.ErrInterrupted) {
		t.Fatalf("trainer %s: %v, want an interrupt", strings.Join(args, " "), err)
	}
	return err.Error(), stdout
}

// TestInterrupt: commands that have nothing to resume from say so.
func TestInterrupt(t *testing.T) {
	folder := t.TempDir()
	short := []string{"--env-kwargs", "steps:10", "--eval-freq", "0", "--save-freq", "0", "--eval-episodes", "1", "-n", "64", "-f", folder, "--json"}
	model := clitest.Decode[run.Result](t, mustExecute(t, append([]string{"train", "--algo", "a2c", "--env", "test/Endless-v0"}, short...)...)).Model
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"compare", []string{"compare", "--env", "test/Endless-v0", "--episodes", "2"}, "0 of 3 policies have played; the same command starts over"},
		{"compare a model", []string{"compare", "--model", model, "--env-kwargs", "steps:1000000000", "--episodes", "2"}, "0 of 4 policies have played; the same command starts over"},
		{"eval", []string{"eval", "--env", "test/Endless-v0", "--baseline", "one"}, "nothing is saved, and the same command starts over"},
		{"enjoy", []string{"enjoy", "--env", "test/Endless-v0", "--baseline", "one", "--no-render"}, "nothing is saved, and the same command starts over"},
		{"imitate", []string{"train", "--algo", "dqn", "--env", "test/Endless-v0", "--imitate", "one", "--imitate-steps", "1000000000", "-f", folder}, "before the first timestep: nothing is saved"},
		{"imitate with seeds", []string{"train", "--algo", "dqn", "--env", "test/Endless-v0", "--imitate", "one", "--imitate-steps", "1000000000", "-f", folder, "--seeds", "1,2", "--n-jobs", "1"}, "seed 2: interrupted before it began: nothing is saved"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if message, _ := interruptedAfter(t, 100, tc.args...); !strings.Contains(message, tc.want) || strings.Contains(message, "context canceled") {
				t.Errorf("%q, want %q and nothing of a context", message, tc.want)
			}
		})
	}
}

// TestInterruptedCompareKeeps: what has played is ranked, in the table and in the file.
func TestInterruptedCompareKeeps(t *testing.T) {
	csv := filepath.Join(t.TempDir(), "c.csv")
	args := []string{"compare", "--env", "test/Endless-v0", "--episodes", "2", "--env-kwargs", "steps:400000", "--baseline", "zero", "--baseline", "one", "--csv", csv}
	message, out := interruptedAfter(t, 800_001, args...) // two episodes of the first, and one step of the second
	if !strings.Contains(message, "1 of 2 policies have played") {
		t.Errorf("%q, want 1 of 2 policies", message)
	}
	for _, text := range []string{out, envstest.Read(t, csv)} {
		if !strings.Contains(text, "zero") {
			t.Errorf("no row of the policy that has played:\n%s", text)
		}
	}
	if !strings.Contains(out, "not played, because of an interrupt: one") {
		t.Errorf("the table does not say what is missing:\n%s", out)
	}
}

// TestInterruptBeforeLearningStarts: DQN has learned nothing yet, but saves and resumes, and ends
// where -n says.
func TestInterruptBeforeLearningStarts(t *testing.T) {
	args := []string{"train", "--algo", dqn.Algo, "--env", "test/Endless-v0", "--env-kwargs", "steps:10", "--params", "n_envs:2", "--params", "train_freq:4",
		"--params", "learning_starts:5000000", "--params", "buffer_size:1000", "--eval-freq", "0", "--eval-episodes", "1"}
	folder := t.TempDir()
	message, _ := interruptedAfter(t, 100, append(args, "-n", "1000000000", "-f", folder)...)
	m := regexp.MustCompile(`interrupted at (\d+) timesteps; go on with .*--resume (\S+)`).FindStringSubmatch(message)
	if m == nil {
		t.Fatalf("%q does not say how to go on", message)
	}
	f, err := models.ReadFile(m[2])
	if err != nil || f.Meta.Timesteps < 100 || f.Meta.Timesteps%8 != 0 || f.Meta.Timesteps >= 5_000_000 { // 2 environments, 4 steps
		t.Errorf("checkpoint of %d timesteps, %v; want a multiple of 8 from 100 on, before learning_starts", f.Meta.Timesteps, err)
	}
	mustExecute(t, "eval", "--model", m[2], "--episodes", "1", "--env-kwargs", "steps:10")
	short := clitest.Decode[run.Result](t, mustExecute(t, append(args, "-n", "64", "-f", t.TempDir(), "--save-freq", "16", "--json")...))
	if short.Timesteps != 64 {
		t.Errorf("-n 64 makes %d timesteps", short.Timesteps)
	}
	for _, name := range []string{"rl_model_16_steps.safetensors", "rl_model_48_steps.safetensors"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(short.Model), name)); err != nil {
			t.Errorf("--save-freq 16: %v", err)
		}
	}
}

// TestInterruptedSeeds: a mean of no training is no 0.00.
func TestInterruptedSeeds(t *testing.T) {
	args := []string{"train", "--algo", "a2c", "--env", "test/Endless-v0", "--env-kwargs", "steps:10", "-n", "1000000000", "--eval-freq", "0",
		"--save-freq", "0", "--seeds", "1..3", "--n-jobs", "2", "-f", t.TempDir()}
	message, out := interruptedAfter(t, 100, args...)
	if strings.Contains(out, "0.00") || strings.Contains(out, "failed") || !strings.Contains(out, "0 of 3 seeds") || !strings.Contains(out, "no mean return") {
		t.Errorf("the table, want no mean and no failure:\n%s", out)
	}
	ran := regexp.MustCompile(`seed [12]: interrupted at `) // the steps before the interrupt may be those of one alone
	if !ran.MatchString(message) || !strings.Contains(message, "seed 3: interrupted before it began") ||
		!strings.Contains(message, "all of them go on with --resume "+args[len(args)-1]) {
		t.Errorf("%q, want the checkpoint of seed 1 or 2, that seed 3 did not begin, and how to resume", message)
	}
	if _, out = interruptedAfter(t, 100, append(args, "--json")...); !strings.Contains(out, `"eval_mean": null`) {
		t.Errorf("JSON:\n%s\nwant no mean", out)
	}
}

// TestInterruptedLearning reports the trainings that are complete.
func TestInterruptedLearning(t *testing.T) {
	old := gates
	t.Cleanup(func() { gates = old })
	dir := t.TempDir()
	conf := filepath.Join(dir, "a2c.yml")
	envstest.Write(t, conf, "test/Endless-v0: {n_timesteps: 100000000}\nclassic/CartPole-v1: {n_timesteps: 100}\n")
	gates = []gate{{name: "short", algo: "a2c", env: "classic/CartPole-v1", conf: conf}, {name: "long", algo: "a2c", env: "test/Endless-v0", conf: conf}}
	message, out := interruptedAfter(t, 100, "learning", "--seeds", "1", "--jobs", "1", "--eval-episodes", "1", "-f", dir)
	if !strings.Contains(message, "1 of 2 trainings are complete, in "+dir) || strings.Contains(message, "--resume") {
		t.Errorf("%q, want 1 of 2 complete", message)
	}
	if !strings.Contains(out, "short") || strings.Contains(out, "long") {
		t.Errorf("the table, want the training that is complete:\n%s", out)
	}
}

func TestChooseGatesRefuses(t *testing.T) {
	for only, want := range map[string]string{"a2c,Foo": `"Foo"`, "A2C,Foo": `"Foo"`, "Foo": `"Foo"`, "dqn,": `""`} {
		if got, err := chooseGates([]string{only}); err == nil || !strings.Contains(err.Error(), "no row "+want) {
			t.Errorf("--only %q: %d rows, %v; want an error about %s", only, len(got), err, want)
		}
	}
	some, err := chooseGates([]string{"a2c,dqn", gates[0].name})
	if err != nil || some[0].name != gates[0].name {
		t.Errorf("%d rows, %v", len(some), err)
	}
}

// TestInterruptAfterTraining: what was trained is named, whatever comes after it is interrupted.
func TestInterruptAfterTraining(t *testing.T) {
	args := []string{"train", "--algo", "a2c", "--env", "test/Endless-v0", "--env-kwargs", "steps:10", "-n", "64", "--eval-freq", "0", "--eval-episodes", "1", "-f", t.TempDir()}
	for _, tc := range []struct {
		name    string
		more    []string
		steps   int64
		pattern string
	}{
		{"last evaluation", []string{"--eval-env-kwargs", "steps:1000000000"}, 1000, `the training is complete, and its model is (\S+)$`},
		{"comparison", []string{"--compare", "10000", "--eval-env-kwargs", "steps:10000"}, 12_000, `trainer compare --model (\S+) compares it$`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			message, _ := interruptedAfter(t, tc.steps, append(args, tc.more...)...)
			m := regexp.MustCompile(tc.pattern).FindStringSubmatch(message)
			if m == nil {
				t.Fatalf("%q, want %s", message, tc.pattern)
			}
			mustExecute(t, "eval", "--model", m[1], "--episodes", "1", "--env-kwargs", "steps:10")
		})
	}
}
