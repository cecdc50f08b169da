package hierarchical_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	_ "github.com/kubernasium/kubernasium/envs/lra/hierarchical"
	"github.com/kubernasium/kubernasium/envs/lra/lratest"
)

const id = "k8s/LRAHierarchical-v0"

func TestContract(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"hierarchical", map[string]any{"containers": 60}},
		{"hierarchical, dense", map[string]any{"containers": 40, "reward": "dense", "subscheduler": "round_robin", "order": "shuffled"}},
		{"hierarchical, 729 nodes, tree", map[string]any{"containers": 60, "nodes": 729, "tree": true, "subscheduler": "least_loaded"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			steps := 600
			if testing.Short() {
				steps = 150
			}
			envcheck.Run(t, envstest.Spec(t, id), envcheck.Options{Options: tc.opts, Steps: steps})
		})
	}
}

func TestContractOnData(t *testing.T) {
	if testing.Short() {
		t.Skip("TestContract checks the same on generated data; run without -short")
	}
	dir := lratest.Dir(t)
	envcheck.Run(t, envstest.Spec(t, id), envcheck.Options{Steps: 200, Options: map[string]any{
		"batches": filepath.Join(dir, "batch_set_200.csv"), "table": filepath.Join(dir, "node_table_rf_p20.csv"),
		"subscheduler": filepath.Join(dir, "metis_subscheduler_weights.npz")}})
}

// TestAskedOnTheWayDown: a policy that was asked at the root of one choice is asked again half-way down
// another, where what it took before is full by now. Sub-cluster 0 has the fewest containers at first.
func TestAskedOnTheWayDown(t *testing.T) {
	lratest.CheckAskedOnTheWayDown(t, id, "equal_split", map[string]any{"nodes": 9 * 27, "tree": true, "containers": 400, "subscheduler": "least_loaded"})
}

func TestInvalidOptions(t *testing.T) {
	for _, tc := range []struct {
		opts map[string]any
		want string
	}{
		{map[string]any{"nodes": 80}, "nodes is 80, want a multiple of 27"},
		{map[string]any{"subscheduler": "genius"}, `subscheduler is "genius", want one of [greedy greedy_local_search least_loaded milp round_robin] or an .npz file`},
		{map[string]any{"nodes": 135, "tree": true}, "5 is no power of 3"},
	} {
		envstest.CheckInvalid(t, id, tc.opts, tc.want)
	}
}

// TestGolden plays the baseline with the published sub-schedulers through the contract and compares
// its throughput with golden_batches.csv, batch 0 of 200 on table p20.
func TestGolden(t *testing.T) {
	dir := lratest.Dir(t)
	v := envstest.Open(t, id, 1, envs.VecOptions{Autoreset: envs.SameStep, Options: map[string]any{
		"table": filepath.Join(dir, "node_table_rf_p20.csv"), "batches": filepath.Join(dir, "batch_set_200.csv"), "batch": 0,
		"subscheduler": filepath.Join(dir, "metis_subscheduler_weights.npz")}})
	b := envstest.Play(t, v, envstest.Policy(t, v, "equal_split"), 1)
	if info, ret := b.FinalInfo, b.EpisodeReturn[0]; math.Abs(info[0]-1.178886) > 1e-6 || math.Abs(ret-info[1]) > 1e-9 {
		t.Errorf("throughput %.6f, return %.6f, want both 1.178886", info[0], ret)
	}
}

// TestGoldenEpisode pins an episode: a change of any law, draw or feature shows here and must be
// meant.
func TestGoldenEpisode(t *testing.T) {
	v := envstest.Open(t, id, 1, envs.VecOptions{Autoreset: envs.SameStep, Options: map[string]any{"containers": 12, "reward": "dense"}})
	envstest.Golden(t, "hierarchical", envstest.Sampled(t, v, 42))
}
