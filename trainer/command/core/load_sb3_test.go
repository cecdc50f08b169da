package core

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/forecast"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// sb3Classes are the classes of Stable-Baselines3 and sb3-contrib that our models become.
var sb3Classes = map[string]string{"ppo": "PPO", "a2c": "A2C", "reinforce": "A2C", "dqn": "DQN", "ppo_lstm": "RecurrentPPO"}

// sb3Job returns the job of a model for check_sb3.py, with what is wanted of it.
func sb3Job(t *testing.T, name, path string, rng *rand.Rand) onnxJob {
	t.Helper()
	job := newOnnxJob(t, name, path, rng)
	job.Model = path
	job.names = []string{"logits", "value"}
	if job.meta.Algo == dqn.Algo {
		job.names = []string{"q_values"}
	}
	return job
}

// checkSB3 plays the jobs' models in Stable-Baselines3 and compares distributions, values and
// greedy actions.
func checkSB3(t *testing.T, jobs []onnxJob) {
	t.Helper()
	var got []map[string]json.RawMessage
	python(t, sb3Python(t), "check_sb3.py", jobs, &got)
	for i, job := range jobs {
		t.Run(job.name, func(t *testing.T) { job.compareSB3(t, got[i]) })
	}
}

func (j onnxJob) compareSB3(t *testing.T, got map[string]json.RawMessage) {
	var class string
	var timesteps int64
	if err := json.Unmarshal(got["class"], &class); err != nil || class != sb3Classes[j.meta.Algo] {
		t.Errorf("class %q, %v; want %q", class, err, sb3Classes[j.meta.Algo])
	}
	if err := json.Unmarshal(got["timesteps"], &timesteps); err != nil || timesteps != j.meta.Timesteps {
		t.Errorf("%d timesteps, %v; want %d", timesteps, err, j.meta.Timesteps)
	}
	wanted := make([][][]float64, len(j.want))
	for s := range j.want {
		for _, row := range j.want[s] {
			wanted[s] = append(wanted[s], sb3Row(t, j.meta, row))
		}
	}
	j.compareRows(t, wanted, j.outputs(t, got), j.want)
	d := clitest.Decode[space.Description](t, j.meta.ActionSpace)
	if d.Kind != "discrete" {
		return
	}
	actions := clitest.Decode[[][]int](t, string(got["actions"]))
	for s := range wanted {
		for r, row := range wanted[s] {
			best := 0
			for a, x := range row[:d.N[0]] {
				if x > row[best] {
					best = a
				}
			}
			if a := actions[s][r]; a != best && row[best]-row[a] > 2*onnxLimit {
				t.Errorf("step %d, row %d: action %d, the engine takes %d", s, r, a, best)
			}
		}
	}
}

// sb3Row returns a row of a job without the state, and with logits as Stable-Baselines3
// normalizes them.
func sb3Row(t *testing.T, meta models.Checkpoint, row []float64) []float64 {
	t.Helper()
	row = append([]float64(nil), row[:len(row)-meta.Spec.StateSize()]...)
	d := clitest.Decode[space.Description](t, meta.ActionSpace)
	if meta.Algo == dqn.Algo || d.Kind != "discrete" {
		return row
	}
	sum := 0.0
	for _, x := range row[:d.N[0]] {
		sum += math.Exp(x)
	}
	for a := range d.N[0] {
		row[a] -= math.Log(sum)
	}
	return row
}

// TestStableBaselines3LoadsShippedModels: each but the forecaster, which is no policy.
func TestStableBaselines3LoadsShippedModels(t *testing.T) {
	sb3Python(t)
	rng := rand.New(rand.NewPCG(9, 10))
	var jobs []onnxJob
	for _, path := range shippedModels(t) {
		if strings.HasPrefix(filepath.Base(path), forecast.Algo) {
			continue
		}
		jobs = append(jobs, sb3Job(t, shippedName(path), path, rng))
	}
	checkSB3(t, jobs)
}

// TestStableBaselines3LoadsEveryKind: networks of every kind, with random parameters.
func TestStableBaselines3LoadsEveryKind(t *testing.T) {
	sb3Python(t)
	rng := rand.New(rand.NewPCG(11, 12))
	var jobs []onnxJob
	for _, k := range onnxKinds {
		path, _ := k.file(t, rng)
		jobs = append(jobs, sb3Job(t, k.name, path, rng))
	}
	checkSB3(t, jobs)
}

// TestStableBaselines3LoadsOurModels: trained models of every algorithm and kind of dense
// network.
func TestStableBaselines3LoadsOurModels(t *testing.T) {
	sb3Python(t)
	rng := rand.New(rand.NewPCG(13, 14))
	var jobs []onnxJob
	for _, tc := range peerModels {
		jobs = append(jobs, sb3Job(t, tc.name, trainPeer(t, tc.algo, tc.params), rng))
	}
	checkSB3(t, jobs)
}

// TestSB3ClassesAreComplete: a new algorithm has to say what it becomes.
func TestSB3ClassesAreComplete(t *testing.T) {
	var without []string
	for _, algo := range algorithms.Names(nil) {
		if sb3Classes[algo] == "" {
			without = append(without, algo)
		}
	}
	if diff := cmp.Diff([]string(nil), without); diff != "" {
		t.Errorf("algorithms without a class (-want +got):\n%s", diff)
	}
}
