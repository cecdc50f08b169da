package subscheduler_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/agents/subscheduler"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/models"
)

// TestRecurrent: a policy with an LSTM fills equal sub-clusters equally, since each filling begins an episode.
func TestRecurrent(t *testing.T) {
	v, err := envs.Make(subscheduler.ID, 1, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	env := agents.EnvInfo{ID: subscheduler.ID, NumEnvs: 1}
	env.Obs, env.Act = v.Spaces()
	cfg := ppo.RecurrentDefaults()
	cfg.LSTMHiddenSize, cfg.NetArch, cfg.TotalTimesteps = 8, []int{8}, 1
	l, err := ppo.NewRecurrent(cfg, env, func(spec models.Spec) (models.Network, error) {
		net, err := agentstest.Networks(t, 1)(spec)
		for _, p := range net.Params() {
			for i := range p.Value {
				p.Value[i] *= 30 // so that choices depend on the state
			}
		}
		return net, err
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	path := filepath.Join(t.TempDir(), "ppo_lstm.safetensors")
	if err := l.Save(&file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	sub, err := subscheduler.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	batches := []lra.Counts{{5, 4, 3, 2, 1, 6, 7}, {7, 1, 2, 3, 4, 5, 6}, {5, 4, 3, 2, 1, 6, 7}}
	var filled []planner.Placement
	for _, batch := range batches {
		_, x := fill(t, sub, batch)
		if x.Batch() != batch {
			t.Errorf("placement of %v, want %v", x.Batch(), batch)
		}
		filled = append(filled, x)
	}
	if !slices.Equal(filled[0], filled[2]) {
		t.Errorf("the batch %v is placed as %v and later as %v", batches[0], filled[0], filled[2])
	}
}
