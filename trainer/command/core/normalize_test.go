package core

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestNormalizedTrainings sees that evaluations use the statistics and leave them: the last
// model is the same with many as with none, and plays to the same mean from its file.
func TestNormalizedTrainings(t *testing.T) {
	for _, algo := range []string{"ppo", "a2c", "reinforce", "ppo_lstm"} {
		t.Run(algo, func(t *testing.T) {
			train := func(freq string) run.Result {
				args := []string{"train", "--algo", algo, "--env", "classic/CartPole-v1", "-n", "2048", "--params", "n_envs:2", "--params", "normalize:true",
					"--eval-freq", freq, "--eval-episodes", "2", "-f", t.TempDir(), "--json"}
				if strings.HasPrefix(algo, "ppo") {
					args = append(args, "--params", "batch_size:64", "--params", "n_epochs:1")
				}
				var res run.Result
				if err := json.Unmarshal([]byte(mustExecute(t, args...)), &res); err != nil {
					t.Fatal(err)
				}
				return res
			}
			often, never := train("256"), train("0")
			f, err := models.ReadFile(often.Model)
			if err != nil {
				t.Fatal(err)
			}
			g, err := models.ReadFile(never.Model)
			if err != nil {
				t.Fatal(err)
			}
			learned := func(f models.File) models.File { // without eval_freq and its like
				f.Tensors = slices.DeleteFunc(slices.Clone(f.Tensors), func(t safetensors.Tensor) bool { return t.Name == "state.training" })
				return f
			}
			if diff := cmp.Diff(learned(f), learned(g)); diff != "" || len(learned(f).Tensors) != len(f.Tensors)-1 {
				t.Errorf("evaluations change what is learned (-with many +with none):\n%s", diff)
			}
			if f.Meta.Metadata["normalize"] == "" {
				t.Error("no statistics in the checkpoint")
			}
			var eval evalResult
			if err := json.Unmarshal([]byte(mustExecute(t, "eval", "--model", often.Model, "--episodes", "2", "--seed", "1000000000", "--json")), &eval); err != nil {
				t.Fatal(err)
			}
			if eval.Mean != often.EvalMean {
				t.Errorf("mean %v of the file, %v of the training", eval.Mean, often.EvalMean)
			}
		})
	}
}
