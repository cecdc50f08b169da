package play

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
)

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
		path := filepath.Join("..", "..", "models", "pretrained", strings.ReplaceAll(tc.env, "/", "-"), tc.algo+".safetensors")
		var policies [2]*Model // one acts, one scores: an LSTM must see every batch once
		for i := range policies {
			if policies[i], err = ReadModelFor(path, v); err != nil {
				t.Fatal(err)
			}
			defer policies[i].Net.Close()
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
