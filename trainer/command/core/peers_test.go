package core

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// peerModels are small trainings of every algorithm and kind of network.
var peerModels = []struct {
	name, algo string
	params     []string
}{
	{"ppo tanh", "ppo", []string{"n_steps:64", "n_epochs:2", "learning_rate:lin_0.01"}},
	{"ppo relu", "ppo", []string{"n_steps:64", "n_epochs:2", "learning_rate:0.0001", "net_arch:[32]", "activation_fn:relu"}},
	{"ppo linear", "ppo", []string{"n_steps:64", "n_epochs:2", "net_arch:[]"}},
	{"a2c", "a2c", []string{"net_arch:[24, 8, 16]"}},
	{"a2c layer norm", "a2c", []string{"net_arch:[24, 8]", "layer_norm:true"}},
	{"ppo normalized", "ppo", []string{"n_steps:64", "n_epochs:2", "normalize:true"}},
	{"dqn", "dqn", []string{"learning_rate:0.0001", "learning_starts:64", "train_freq:8", "gradient_steps:4", "net_arch:[40, 16]"}},
	{"dqn layer norm", "dqn", []string{"learning_starts:64", "train_freq:8", "gradient_steps:4", "net_arch:[16]", "layer_norm:true"}},
	{"dqn double dueling", "dqn", []string{"learning_starts:64", "train_freq:8", "gradient_steps:4", "net_arch:[16]", "dueling:true", "double_q:true"}},
}

// trainPeer trains one of peerModels on CartPole and returns the file of the last model.
func trainPeer(t *testing.T, algo string, params []string) string {
	t.Helper()
	args := []string{"train", "--algo", algo, "--env", "classic/CartPole-v1", "-n", "1500", "--eval-freq", "0", "--eval-episodes", "2",
		"--params", "n_envs:2", "-f", t.TempDir(), "--json"}
	if algo == "ppo" || algo == "ppo_lstm" {
		args = append(args, "--params", "batch_size:64")
	}
	for _, p := range params {
		args = append(args, "--params", p)
	}
	res := clitest.Decode[run.Result](t, mustExecute(t, args...))
	return res.Model
}

// python runs a script of testdata with input as JSON on its standard input, and decodes what it
// prints.
func python(t *testing.T, interpreter, script string, input, result any, args ...string) {
	t.Helper()
	in, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(interpreter, append([]string{filepath.Join("testdata", script)}, args...)...)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%s: %v\n%s", script, err, exit.Stderr)
		}
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, result); err != nil {
		t.Fatalf("%s printed %.300s: %v", script, out, err)
	}
}

// sb3Python returns the interpreter of the tests that ask Stable-Baselines3.
func sb3Python(t *testing.T) string {
	t.Helper()
	interpreter := os.Getenv("SB3_PYTHON")
	if interpreter == "" {
		t.Skip("set SB3_PYTHON to a Python that has stable-baselines3 and clients/python installed")
	}
	return interpreter
}

// TestStableBaselines3ReadsOurLogs compares what SB3's load_results and pandas make of a log
// folder with what the training says of itself.
func TestStableBaselines3ReadsOurLogs(t *testing.T) {
	interpreter := sb3Python(t)
	path := trainPeer(t, "ppo", peerModels[0].params)
	var got struct {
		Files                    int
		Columns                  []string
		R, L                     []float64
		Steps, Episodes, Returns []float64
		Progress                 map[string][]float64
	}
	python(t, interpreter, "check_sb3.py", nil, &got, "--logs", filepath.Dir(path))
	// load_results puts an index before them.
	if diff := cmp.Diff([]string{"r", "l", "t", "timesteps"}, got.Columns[1:5]); diff != "" || got.Files != 1 {
		t.Errorf("%d monitor files with columns %v", got.Files, got.Columns)
	}
	if len(got.R) < 20 || !slices.Equal(got.R, got.L) || !slices.Equal(got.R, got.Returns) { // CartPole's return is its length
		t.Errorf("returns %v, lengths %v", got.R, got.L)
	}
	sum := 0.0
	for i, l := range got.L {
		if sum += l; got.Steps[i] != sum {
			t.Fatalf("load_results has %v steps after %d episodes, want %v", got.Steps[i], i+1, sum)
		}
	}
	steps := got.Progress["time/total_timesteps"]
	if len(steps) == 0 || steps[len(steps)-1] != 1536 || len(got.Progress["train/loss"]) != len(steps) {
		t.Errorf("progress.csv: %v", got.Progress)
	}
	// The last mean is over the last 100 episodes.
	last := got.R[max(0, len(got.R)-100):]
	mean := 0.0
	for _, r := range last {
		mean += r / float64(len(last))
	}
	if m := got.Progress["rollout/ep_rew_mean"]; math.Abs(m[len(m)-1]-mean) > 1e-6 {
		t.Errorf("rollout/ep_rew_mean ends at %v, monitor.csv says %v", m[len(m)-1], mean)
	}
}
