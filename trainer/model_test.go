package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
)

// TestModelsOfNodesServeOtherSizes trains policies over nodes among few nodes and plays them
// among more, by every command that plays models.
func TestModelsOfNodesServeOtherSizes(t *testing.T) {
	for _, tc := range []struct{ algo, policy string }{
		{"ppo", "NodePolicy"}, {"a2c", "SAGEPolicy"}, {"dqn", "GCNPolicy"}, {"ppo_lstm", "NodeLstmPolicy"}, {"ppo_lstm", "SAGELstmPolicy"},
	} {
		t.Run(tc.algo+" "+tc.policy, func(t *testing.T) {
			args := []string{"train", "--algo", tc.algo, "--env", "k8s/PodBalance-v0", "--env-kwargs", "nodes:6", "-f", t.TempDir(), "--json",
				"-n", "256", "--eval-freq", "0", "--eval-episodes", "2", "--params", "n_envs:2", "--params", "policy:" + tc.policy, "--params", "net_arch:[8]"}
			switch tc.algo {
			case "ppo", "ppo_lstm":
				args = append(args, "--params", "n_steps:64", "--params", "batch_size:64", "--params", "n_epochs:2", "--params", "norm_obs:true")
			case "dqn":
				args = append(args, "--params", "learning_starts:64", "--params", "buffer_size:1000", "--params", "dueling:true", "--params", "layer_norm:true")
			}
			edges := "none"
			if !strings.HasPrefix(tc.policy, "Node") {
				edges = "rack"
			}
			args = append(args, "--env-kwargs", "edges:"+edges)
			var res trainResult
			if err := json.Unmarshal([]byte(mustExecute(t, args...)), &res); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{
				{"eval", "--model", res.Model, "--episodes", "2", "--env-kwargs", "nodes:15"},
				{"enjoy", "--model", res.Model, "--episodes", "1", "--env-kwargs", "nodes:15", "--no-render"},
				{"compare", "--model", res.Model, "--episodes", "2", "--env-kwargs", "nodes:15", "--baseline", "random"},
			} {
				mustExecute(t, args...)
			}
			mustExecute(t, "export", "--model", res.Model, "--onnx", filepath.Join(t.TempDir(), "m.onnx"))
			if edges == "none" {
				return
			}
			_, _, err := execute(t, context.Background(), "eval", "--model", res.Model, "--episodes", "2", "--env-kwargs", "edges:none")
			if !errors.Is(err, models.ErrMismatch) || !strings.Contains(err.Error(), `no leaf "edges"`) {
				t.Errorf("without edges: %v, want a mismatch that names them", err)
			}
		})
	}
}

// TestScoresRankActions: a policy takes the permitted action of the highest score.
func TestScoresRankActions(t *testing.T) {
	for _, tc := range []struct{ env, algo string }{
		{"k8s/PodBalance-v0", "ppo"}, {"k8s/GPUPodScheduling-v0", "ppo"}, {"classic/CartPole-v1", "dqn"}, {"classic/CartPole-v1", "ppo_lstm"},
		{"k8s/LRAPlacement-v0", "ppo_lstm"},
	} {
		v, err := envs.Make(tc.env, 3, envs.VecOptions{Autoreset: envs.SameStep})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		path := filepath.Join("..", "models", "pretrained", strings.ReplaceAll(tc.env, "/", "-"), tc.algo+".safetensors")
		var policies [2]*model // one acts, one scores: an LSTM must see every batch once
		for i := range policies {
			if policies[i], err = readModelFor(path, v); err != nil {
				t.Fatal(err)
			}
			defer policies[i].net.Close()
		}
		scorer := policies[1].Policy.(agents.Scorer)
		b, err := v.Reset(context.Background(), envs.VecResetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		actions, scores := make([]float32, 3), make([]float32, len(b.Mask))
		n := len(b.Mask) / 3
		for range 50 {
			if err := errors.Join(policies[0].Act(b, actions), scorer.Scores(b, scores)); err != nil {
				t.Fatal(err)
			}
			for i, a := range actions {
				for j, s := range scores[i*n : (i+1)*n] {
					if best := scores[i*n+int(a)]; b.Mask[i*n+j] && (s > best || s == best && j < int(a)) {
						t.Fatalf("%s %s takes action %v of score %v, and action %d has %v", tc.env, tc.algo, a, best, j, s)
					}
				}
			}
			if b, err = v.Step(context.Background(), actions); err != nil {
				t.Fatal(err)
			}
		}
	}
}
