package core

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// savedLimit bounds how far the outputs of a model of Stable-Baselines3 and those of the file that
// was written of it differ, relative to the largest of a row if that is above 1.
const savedLimit = 1e-6

// TestStableBaselines3ModelsArePlayed: models that Stable-Baselines3 has trained, VecNormalize
// included, have the same outputs here, and eval plays them; DQN starts from its transitions.
func TestStableBaselines3ModelsArePlayed(t *testing.T) {
	interpreter, folder := sb3Python(t), t.TempDir()
	var got []struct {
		File         string
		Obs, Outputs [][]float64
	}
	python(t, interpreter, "check_save_native.py", nil, &got, folder)
	if len(got) != 4 {
		t.Fatalf("%d models, want 4", len(got))
	}
	for _, model := range got {
		t.Run(filepath.Base(model.File), func(t *testing.T) {
			rows := outputsOf(t, model.File, model.Obs)
			for i, row := range rows {
				want, scale := model.Outputs[i], 1.0
				for _, x := range row {
					scale = max(scale, math.Abs(x))
				}
				for k := range want {
					if !(math.Abs(row[k]-want[k]) <= savedLimit*scale) {
						t.Fatalf("observation %d: outputs %v, Stable-Baselines3 %v", i, row, want)
					}
				}
			}
			mustExecute(t, "eval", "--model", model.File, "--episodes", "2")
		})
	}
	mustExecute(t, "train", "--algo", "dqn", "--env", "classic/CartPole-v1", "-n", "64", "--eval-episodes", "1", "-f", t.TempDir(), "--json",
		"--params", "n_envs:1", "--params", "learning_starts:0", "--transitions", filepath.Join(folder, "transitions.safetensors"))
}

// outputsOf returns the outputs of the network of a file on observations of CartPole that are not
// normalized yet: of an actor-critic the logits as Stable-Baselines3 normalizes them.
func outputsOf(t *testing.T, path string, obs [][]float64) [][]float64 {
	t.Helper()
	m, err := play.ReadModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Net.Close()
	f, err := models.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	norm, err := normalize.Load(f, f.Meta.Spec, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var raw []float32
	for _, row := range obs {
		for _, x := range row {
			raw = append(raw, float32(x))
		}
	}
	seen := make([]float32, len(raw))
	norm.Obs(seen, raw)
	out, err := m.Net.Forward(seen, len(obs)) // each the first of an episode
	if err != nil {
		t.Fatal(err)
	}
	k := m.Meta.Spec.Outputs()
	rows := make([][]float64, len(obs))
	for i := range rows {
		for _, x := range out[i*k : (i+1)*k] {
			rows[i] = append(rows[i], float64(x))
		}
		if m.Meta.Algo != dqn.Algo {
			sum := math.Log(math.Exp(rows[i][0]) + math.Exp(rows[i][1]))
			rows[i][0], rows[i][1] = rows[i][0]-sum, rows[i][1]-sum
		}
	}
	return rows
}
