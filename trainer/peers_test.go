package main

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
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
	var res trainResult
	if err := json.Unmarshal([]byte(mustExecute(t, args...)), &res); err != nil {
		t.Fatal(err)
	}
	return res.Model
}

// peerObs are 1,000 observations that reach beyond CartPole's limits.
func peerObs() [][]float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	obs := make([][]float32, 1000)
	for i := range obs {
		for range 4 {
			obs[i] = append(obs[i], float32(2*rng.NormFloat64()))
		}
	}
	return obs
}

// outputs are those of the default engine: rows of the network, and the greedy actions.
func outputs(t *testing.T, path string, obs [][]float32) (rows [][]float32, actions []int, spec models.Spec) {
	t.Helper()
	m, err := readModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.net.Close()
	b := &envs.Batch{Obs: slices.Concat(obs...), Reward: make([]float64, len(obs)), Mask: slices.Repeat([]bool{true}, 2*len(obs))}
	f, err := models.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	norm, err := normalize.Load(f, f.Meta.Spec, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := make([]float32, len(b.Obs))
	norm.Obs(seen, b.Obs)
	out, err := m.net.Forward(seen, len(obs))
	if err != nil {
		t.Fatal(err)
	}
	k := m.meta.Spec.Outputs()
	for i := range obs {
		rows = append(rows, slices.Clone(out[i*k:(i+1)*k]))
	}
	choice := make([]float32, len(obs))
	if err := m.Act(b, choice); err != nil {
		t.Fatal(err)
	}
	for _, a := range choice {
		actions = append(actions, int(a))
	}
	return rows, actions, m.meta.Spec
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

// qValues are those of a row of a DQN's network, dueling or not.
func qValues(row []float32) []float64 {
	const actions = 2
	q := []float64{float64(row[0]), float64(row[1])}
	if len(row) > actions {
		mean := (q[0] + q[1]) / actions
		q[0], q[1] = float64(row[2])+q[0]-mean, float64(row[2])+q[1]-mean
	}
	return q
}

// peerLimit bounds how far two float32 engines differ that sum at most 64 products in different
// orders and have different tanhs: 80 roundings of 6e-8.
const peerLimit = 5e-6

// near reports whether two numbers differ by no more than limit, relative to the largest of the
// outputs they are computed from if that is above 1.
func near(a, b, limit float64, row []float32) bool {
	scale := 1.0
	for _, x := range row {
		scale = max(scale, math.Abs(float64(x)))
	}
	return math.Abs(a-b) <= limit*scale
}

// TestStableBaselines3LoadsOurModels: equal greedy actions on 1,000 observations, equal
// distributions and values to the rounding of float32.
func TestStableBaselines3LoadsOurModels(t *testing.T) {
	interpreter := sb3Python(t)
	obs := peerObs()
	for _, tc := range peerModels {
		t.Run(tc.name, func(t *testing.T) {
			path := trainPeer(t, tc.algo, tc.params)
			for param, refusal := range map[string]string{"dueling:true": "no dueling networks", "layer_norm:true": "no layer norms", "normalize:true": "norm_obs"} {
				if !slices.Contains(tc.params, param) {
					continue
				}
				cmd := exec.Command(interpreter, "-m", "kubernasium.load_sb3", path, filepath.Join(t.TempDir(), "m.zip"))
				if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), refusal) {
					t.Errorf("load_sb3: %v, %s; want a refusal with %q", err, out, refusal)
				}
				return
			}
			var got struct {
				Class         string
				Actions       []int
				Timesteps     int
				Probabilities [][]float64
				Values        [][]float64
				QValues       [][]float64 `json:"q_values"`
			}
			python(t, interpreter, "check_sb3.py", obs, &got, path)
			rows, actions, _ := outputs(t, path, obs)
			if got.Class != strings.ToUpper(tc.algo) || got.Timesteps < 1500 {
				t.Errorf("SB3 made a %s of %d timesteps", got.Class, got.Timesteps)
			}
			if diff := cmp.Diff(actions, got.Actions); diff != "" {
				t.Errorf("greedy actions (-ours +SB3):\n%s", diff)
			}
			if sum := actions[0]; !slices.ContainsFunc(actions, func(a int) bool { return a != sum }) {
				t.Error("all actions are the same: the test tells nothing")
			}
			for i, row := range rows {
				if tc.algo == "dqn" {
					for k, q := range qValues(row) {
						if !near(q, got.QValues[i][k], peerLimit, row) {
							t.Fatalf("observation %d: q-values %v, SB3 %v", i, qValues(row), got.QValues[i])
						}
					}
					continue
				}
				p0 := 1 / (1 + math.Exp(float64(row[1])-float64(row[0])))
				if math.Abs(p0-got.Probabilities[i][0]) > 1e-6 || math.Abs(1-p0-got.Probabilities[i][1]) > 1e-6 || !near(float64(row[2]), got.Values[i][0], peerLimit, row) {
					t.Fatalf("observation %d: P(0) = %v and value %v, SB3 %v and %v", i, p0, row[2], got.Probabilities[i], got.Values[i])
				}
			}
		})
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
