package core

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/run"
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
			res := clitest.Decode[run.Result](t, mustExecute(t, args...))
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
