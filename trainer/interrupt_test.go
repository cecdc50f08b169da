package main

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// endless is a task whose episodes have no end but their option's.
type endless struct{ steps int }

type endlessOptions struct {
	Steps int `opt:"steps" doc:"of an episode"`
}

// endlessSteps counts the steps of all of them.
var endlessSteps atomic.Int64

func init() {
	defaults := endlessOptions{Steps: 1_000_000_000}
	always := func(action float32) func(envs.Task) (envs.Rule, error) {
		return func(envs.Task) (envs.Rule, error) {
			return func(_ context.Context, _ *cluster.State, _ bool, a []float32) error { a[0] = action; return nil }, nil
		}
	}
	envs.Register(&envs.Spec{
		ID: "test/Endless-v0", Doc: "Goes on.", Options: &defaults,
		Baselines: []envs.Baseline{{Name: "zero", Doc: "0", New: always(0)}, {Name: "one", Doc: "1", New: always(1)}},
		Open: func(opts map[string]any) (envs.Maker, error) {
			o := defaults
			if err := envs.DecodeOptions(opts, &o); err != nil {
				return nil, err
			}
			return func() (envs.Task, error) { return &endless{o.Steps}, nil }, nil
		},
	})
}

func (*endless) Spaces() (obs, act space.Space) { return space.NewBox(-1, 1, 1), space.Discrete{N: 2} }

// MaxEpisodeSteps implements [envs.Limiter].
func (t *endless) MaxEpisodeSteps() int { return t.steps }

func (*endless) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }

func (*endless) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	endlessSteps.Add(1)
	return envs.Outcome{Reward: float64(action[0])}, nil
}

func (*endless) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0] = 0
	for i := range mask {
		mask[i] = true
	}
}

// interruptedAfter runs the command line, interrupts it when the endless environments have made so
// many steps, and returns its error, which must be an interrupt, and its output.
func interruptedAfter(t *testing.T, steps int64, args ...string) (message, stdout string) {
	t.Helper()
	before := endlessSteps.Load()
	stdout, _, err := execute(t, cancelWhen(t, func() bool { return endlessSteps.Load() >= before+steps }), args...)
	if !errors.Is(err, errInterrupted) {
		t.Fatalf("trainer %s: %v, want an interrupt", strings.Join(args, " "), err)
	}
	return err.Error(), stdout
}

// TestInterrupt: commands that have nothing to resume from say so.
func TestInterrupt(t *testing.T) {
	folder := t.TempDir()
	short := []string{"--env-kwargs", "steps:10", "--eval-freq", "0", "--save-freq", "0", "--eval-episodes", "1", "-n", "64", "-f", folder, "--json"}
	model := decode[trainResult](t, mustExecute(t, append([]string{"train", "--algo", "a2c", "--env", "test/Endless-v0"}, short...)...)).Model
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
	args := []string{"compare", "--env", "test/Endless-v0", "--episodes", "2", "--env-kwargs", "steps:2000000", "--baseline", "zero", "--baseline", "one", "--csv", csv}
	message, out := interruptedAfter(t, 4_000_001, args...) // two episodes of the first, and one step of the second
	if !strings.Contains(message, "1 of 2 policies have played") {
		t.Errorf("%q, want 1 of 2 policies", message)
	}
	for _, text := range []string{out, read(t, csv)} {
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
	short := decode[trainResult](t, mustExecute(t, append(args, "-n", "64", "-f", t.TempDir(), "--save-freq", "16", "--json")...))
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
	if !strings.Contains(message, "seed 1: interrupted at ") || !strings.Contains(message, "seed 3: interrupted before it began") {
		t.Errorf("%q, want the checkpoint of seed 1 and that seed 3 did not begin", message)
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
	if err := os.WriteFile(conf, []byte("test/Endless-v0: {n_timesteps: 100000000}\nclassic/CartPole-v1: {n_timesteps: 100}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
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

// TestSignalStatus interrupts commands in processes of their own: the exit status is 130.
func TestSignalStatus(t *testing.T) {
	for _, tc := range []struct {
		name   string
		signal os.Signal
		args   []string
	}{
		{"imitate", os.Interrupt, []string{"train", "--algo", "ppo", "--env", "test/Endless-v0", "--imitate", "one", "--imitate-steps", "1000000000", "-f", t.TempDir()}},
		{"compare", os.Interrupt, []string{"compare", "--env", "test/Endless-v0", "--episodes", "2"}},
		{"standard input", syscall.SIGTERM, []string{"reproduce", "vpa", "--usage", "-"}},
		{"gang profile", syscall.SIGTERM, []string{"gang", "profile", "--env-kwargs", "steps:100000", "--ages", "100000"}},
		{"gang forecast", syscall.SIGTERM, []string{"gang", "forecast", "--draws", "100000000"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], tc.args...)
			cmd.Env = append(os.Environ(), childVariable+"=1", patientVariable+"=1")
			if _, err := cmd.StdinPipe(); err != nil { // which Wait closes
				t.Fatal(err)
			}
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("the first line is %q, %v", line, err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			deadline := time.After(patience)
			again := time.NewTicker(200 * time.Millisecond)
			defer again.Stop()
			for {
				select {
				case <-again.C: // the first ones may come before the process attends to signals
					_ = cmd.Process.Signal(tc.signal)
					continue
				case <-deadline:
					_ = cmd.Process.Kill()
					<-ended
					t.Fatalf("the command did not end within %v", patience)
				case err := <-ended:
					var exit *exec.ExitError
					if !errors.As(err, &exit) || exit.ExitCode() != statusInterrupted || !strings.Contains(stderr.String(), "trainer: interrupted") {
						t.Errorf("%v, want exit status 130 and a line about the interrupt\n%s", err, stderr.String())
					}
				}
				return
			}
		})
	}
}
