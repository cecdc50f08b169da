package gpu_test

import (
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	_ "github.com/kubernasium/kubernasium/envs/podsched/gpu"
)

const id = "k8s/GPUPodScheduling-v0"

func spec(tb testing.TB) *envs.Spec {
	tb.Helper()
	return envstest.Spec(tb, id)
}

func TestContract(t *testing.T) {
	for i, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"default", nil},
		{"defer", map[string]any{"defer": true, "num_nodes": 8, "load_start": 0.5}},
		{"timed", map[string]any{"dynamics": "timed", "num_nodes": 8, "num_pods": 100, "reward": "waiting"}},
		{"timed, defer", map[string]any{"dynamics": "timed", "defer": true, "num_nodes": 4, "num_pods": 60, "load": 2.0}},
		{"edges", map[string]any{"num_nodes": 12, "edges": "model", "defer": true}},
		{"weighted, plain", map[string]any{"num_nodes": 16, "reward": "weighted", "scores": false, "devices": "best", "split": "heldout"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			envstest.EveryThird(t, i)
			envcheck.Run(t, spec(t), envcheck.Options{Options: tc.opts})
		})
	}
}

func TestContractOfVersion1(t *testing.T) {
	envcheck.Run(t, envstest.Spec(t, "k8s/GPUPodScheduling-v1"), envcheck.Options{Options: map[string]any{"num_nodes": 12}})
	envcheck.Run(t, envstest.Spec(t, "k8s/GPUPodScheduling-v2"), envcheck.Options{Options: map[string]any{"num_nodes": 12}})
}

// TestNodesWithoutModel: a list of nodes need not say of which model its GPUs are, and a draw of
// one of them has one with a GPU.
func TestNodesWithoutModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nodes.csv")
	envstest.Write(t, path, "sn,cpu_milli,memory_mib,gpu\na,8000,32768,0\nb,8000,32768,2\n")
	v := envstest.Open(t, spec(t).ID, 1, envs.VecOptions{Options: map[string]any{"nodes": path, "num_nodes": 1}, Autoreset: envs.SameStep})
	for seed := range uint64(4) {
		envstest.Reset(t, v, seed)
		if n := v.Env(0).State().Nodes; len(n) != 1 || n[0].NumDevices != 2 {
			t.Errorf("seed %d: %+v, want one node with two GPUs", seed, n)
		}
	}
}
