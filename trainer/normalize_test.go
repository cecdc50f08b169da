package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// TestNormalizeOfRLZoo reads the forms that RL Zoo's files have.
func TestNormalizeOfRLZoo(t *testing.T) {
	both := normalize.Normalization{NormObs: true, NormReward: true, ClipObs: 10, ClipReward: 10}
	obs := both
	obs.NormReward = false
	clipped := both
	clipped.ClipObs = 5
	for _, tc := range []struct {
		yaml   string
		params map[string]any
		want   normalize.Normalization
	}{
		{"normalize: true", nil, both},
		{"normalize: True", nil, both},
		{"normalize: false", nil, normalize.Defaults()},
		{`normalize: "{'norm_obs': True, 'norm_reward': False}"`, nil, obs},
		{"normalize: {norm_obs: true, norm_reward: false}", nil, obs},
		{"normalize: dict(norm_obs=True, norm_reward=False)", nil, obs},
		{"normalize: {clip_obs: 5.0}", nil, clipped},
		{"normalize: true", map[string]any{"norm_reward": false}, obs},
		{"gamma: 0.9", map[string]any{"normalize": "{norm_reward: false}"}, obs},
	} {
		file := filepath.Join(t.TempDir(), "ppo.yml")
		if err := os.WriteFile(file, []byte("classic/CartPole-v1:\n  "+tc.yaml+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		h, err := readHyperparams("ppo", "classic/CartPole-v1", file, tc.params)
		if err != nil {
			t.Errorf("%s: %v", tc.yaml, err)
			continue
		}
		if diff := cmp.Diff(tc.want, h.Config.(*ppo.Config).Normalization); diff != "" {
			t.Errorf("%s with %v (-want +got):\n%s", tc.yaml, tc.params, diff)
		}
	}
	for algo, values := range map[string][]any{"ppo": {3, "yes please", map[string]any{"norm_actions": true}}, "dqn": {true}} {
		for _, v := range values {
			if _, err := readHyperparams(algo, "classic/CartPole-v1", "", map[string]any{"normalize": v}); err == nil || !strings.Contains(err.Error(), "norm") {
				t.Errorf("%s, normalize %v: error %v", algo, v, err)
			}
		}
	}
	if _, err := readHyperparams("dqn", "classic/CartPole-v1", "", map[string]any{"normalize": false}); err != nil {
		t.Errorf("dqn, normalize false: %v", err)
	}
}

// TestNormalizedTrainings sees that evaluations use the statistics and leave them: the last
// model is the same with many as with none, and plays to the same mean from its file.
func TestNormalizedTrainings(t *testing.T) {
	for _, algo := range []string{"ppo", "a2c", "reinforce", "ppo_lstm"} {
		t.Run(algo, func(t *testing.T) {
			train := func(freq string) trainResult {
				args := []string{"train", "--algo", algo, "--env", "classic/CartPole-v1", "-n", "2048", "--params", "n_envs:2", "--params", "normalize:true",
					"--eval-freq", freq, "--eval-episodes", "2", "-f", t.TempDir(), "--json"}
				if strings.HasPrefix(algo, "ppo") {
					args = append(args, "--params", "batch_size:64", "--params", "n_epochs:1")
				}
				var res trainResult
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
