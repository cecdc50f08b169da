package core

import (
	"bytes"
	"compress/zlib"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

const balanceEnv = "k8s/PodBalance-v0"

// balanceArgs are arguments of a short DQN training that a heuristic starts.
func balanceArgs(folder string, more ...string) []string {
	return append([]string{"train", "--algo", "dqn", "--env", balanceEnv, "-n", "320", "-f", folder, "--seed", "3", "--json",
		"--params", "n_envs:1", "--params", "learning_starts:32", "--params", "train_freq:4", "--params", "net_arch:[8]", "--params", "buffer_size:1000",
		"--params", "batch_size:8", "--eval-freq", "128", "--eval-episodes", "2", "--save-freq", "80"}, more...)
}

// played returns what Greedy does in the first steps of the training of balanceArgs, and the
// imbalance after each step.
func played(t *testing.T, steps int) (actions []int, imbalance []float64) {
	t.Helper()
	spec, err := envs.Lookup(balanceEnv)
	if err != nil {
		t.Fatal(err)
	}
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	greedy, err := baseline.New(v, "Greedy", 0)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(3)
	b, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	a := make([]float32, 1)
	for range steps {
		if err := greedy.Act(b, a); err != nil {
			t.Fatal(err)
		}
		if b, err = v.Step(context.Background(), a); err != nil {
			t.Fatal(err)
		}
		info := b.Info
		if b.Done(0) {
			info = b.FinalInfo
		}
		actions = append(actions, int(a[0]))
		imbalance = append(imbalance, info[spec.Column("imbalance")])
	}
	return actions, imbalance
}

// TestWarmStartIsLogged: a heuristic that acts from the first step to the last does what it does
// alone, and TensorBoard's tags show it: placements by node and the mean imbalance between rows.
func TestWarmStartIsLogged(t *testing.T) {
	folder := t.TempDir()
	mustExecute(t, balanceArgs(folder, "--warm-start", "Greedy", "--warm-start-steps", "1000")...)
	actions, imbalance := played(t, 320)
	from := 0
	for _, e := range clitest.Events(t, filepath.Join(folder, "dqn", run.EnvName(balanceEnv)+"_1")) {
		for _, h := range e.Histograms {
			want := map[int]float64{}
			for _, a := range actions[from:e.Step] {
				want[a]++
			}
			got := map[int]float64{}
			for i, n := range h.Counts {
				if n > 0 {
					got[int(h.Limits[i])] = n
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || h.Tag != "rollout/placements_by_node" {
				t.Errorf("%s at step %d (-want +got):\n%s", h.Tag, e.Step, diff)
			}
			from = int(e.Step)
		}
		for _, s := range e.Scalars {
			if s.Tag != "rollout/imbalance" {
				continue
			}
			mean := tracking.Mean(imbalance[from:e.Step]) // scalars are before the histograms
			if math.Abs(float64(s.Value)-mean) > 1e-5*mean {
				t.Errorf("imbalance at step %d is %v, want %v", e.Step, s.Value, mean)
			}
		}
	}
	if from != 320 {
		t.Errorf("histograms up to step %d, want 320", from)
	}
}

// TestWarmStartEnds: after the heuristic's steps the learner acts.
func TestWarmStartEnds(t *testing.T) {
	folder := t.TempDir()
	mustExecute(t, balanceArgs(folder, "--warm-start", "Greedy", "--warm-start-steps", "100", "--params", "learning_starts:320")...)
	actions, _ := played(t, 320)
	f, err := play.ReadModel(filepath.Join(folder, "dqn", run.EnvName(balanceEnv)+"_1", run.EnvName(balanceEnv)+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Net.Close()
	taken := replayActions(t, f.Path)
	for i, a := range actions[:100] {
		if taken[i] != a {
			t.Fatalf("action %d is %d, want Greedy's, %d", i, taken[i], a)
		}
	}
	if taken[100] == actions[100] {
		t.Errorf("action 100 is Greedy's too, want the learner's, which is another one with this seed")
	}
	same := 0
	for i := 100; i < 320; i++ {
		if taken[i] == actions[i] {
			same++
		}
	}
	if same > 110 { // of 10 nodes at random
		t.Errorf("%d of the 220 actions after the warm start are Greedy's, want few", same)
	}
}

// TestStartsAreResumedExactly: a training that a heuristic or recorded transitions start, resumed
// from each of its checkpoints, leaves the same bytes; the first of them is from within the warm start.
func TestStartsAreResumedExactly(t *testing.T) {
	recorded := filepath.Join(t.TempDir(), "greedy.safetensors")
	mustExecute(t, "record", "--env", balanceEnv, "--policy", "Greedy", "-n", "150", "--out", recorded)
	for name, more := range map[string][]string{
		"warm start":  {"--warm-start", "Greedy", "--warm-start-steps", "100"},
		"transitions": {"--transitions", recorded},
		"neither":     nil,
	} {
		folder := t.TempDir()
		args := balanceArgs(folder, more...)
		mustExecute(t, args...)
		dir := filepath.Join(folder, "dqn", run.EnvName(balanceEnv)+"_1")
		final := filepath.Join(dir, run.EnvName(balanceEnv)+".safetensors")
		want := envstest.Read(t, final)
		if plain := filepath.Join(folder, "again"); name == "transitions" { // they have an effect, and the same each time
			mustExecute(t, balanceArgs(plain)...)
			if envstest.Read(t, filepath.Join(plain, "dqn", run.EnvName(balanceEnv)+"_1", filepath.Base(final))) == want {
				t.Error("the recorded transitions changed nothing")
			}
		}
		for _, checkpoint := range clitest.Checkpoints(t, dir, clitest.Timesteps(t, final)) {
			if err := os.Remove(final); err != nil {
				t.Fatal(err)
			}
			mustExecute(t, append(args, "--resume", checkpoint)...)
			if envstest.Read(t, final) != want {
				t.Errorf("%s: resumed from %s, the model is not that of the uninterrupted training", name, filepath.Base(checkpoint))
			}
		}
	}
}

// replayActions returns the actions in the replay buffer of a model's file, oldest first.
func replayActions(t *testing.T, path string) []int {
	t.Helper()
	f, err := models.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zlib.NewReader(bytes.NewReader(tensorOf[uint8](t, f, "state.replay_buffer")))
	if err != nil {
		t.Fatal(err)
	}
	sf, err := safetensors.Read(z)
	if err != nil {
		t.Fatal(err)
	}
	arrays := models.File{Tensors: sf.Tensors}
	values := tensorOf[float32](t, arrays, "state.replay.action")
	kinds := tensorOf[uint8](t, arrays, "state.replay.kind")
	var taken []int
	for i, a := range values {
		if kinds[i] > 0 && kinds[i] < 4 { // a transition
			taken = append(taken, int(a))
		}
	}
	return taken
}

// tensorOf returns the values of a tensor in a file.
func tensorOf[T safetensors.Element](t *testing.T, f models.File, name string) []T {
	t.Helper()
	tensor, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	values, err := safetensors.As[T](tensor)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func TestWarmStartRefuses(t *testing.T) {
	recorded := filepath.Join(t.TempDir(), "steps.safetensors")
	res := clitest.Decode[recordResult](t, mustExecute(t, "record", "--env", "classic/CartPole-v1", "--policy", "random", "-n", "50", "--out", recorded, "--json"))
	if res.Transitions != 50 || res.Episodes < 1 || res.Policy != "random" || res.Env != "classic/CartPole-v1" {
		t.Errorf("record: %+v", res)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"ppo":           {[]string{"train", "--algo", "ppo", "--env", balanceEnv, "--warm-start", "Greedy"}, "--imitate Greedy"},
		"random":        {balanceArgs(t.TempDir(), "--warm-start", "random"), "at random anyway"},
		"no steps":      {balanceArgs(t.TempDir(), "--warm-start", "Greedy", "--warm-start-steps", "0"), "want at least 1"},
		"unknown":       {balanceArgs(t.TempDir(), "--warm-start", "Best"), `no baseline "Best"`},
		"a server":      {[]string{"train", "--algo", "dqn", "--env", balanceEnv, "--warm-start", "Greedy", "--url", "ws://127.0.0.1:1"}, ""},
		"another env":   {balanceArgs(t.TempDir(), "--transitions", recorded), "was recorded in classic/CartPole-v1"},
		"ppo, recorded": {[]string{"train", "--algo", "ppo", "--env", "classic/CartPole-v1", "--transitions", recorded}, "only dqn learns"},
		"small buffer":  {[]string{"train", "--algo", "dqn", "--env", "classic/CartPole-v1", "--transitions", recorded, "--params", "buffer_size:40", "-f", t.TempDir()}, "at most buffer_size, 40"},
		"box":           {[]string{"record", "--env", "k8s/LRAPricing-v0", "--policy", "random", "--out", recorded + "x"}, "want discrete"},
	} {
		_, _, err := execute(t, context.Background(), tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
