package placement_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra/lratest"
	_ "github.com/kubernasium/kubernasium/envs/lra/placement"
)

const (
	placementID  = "k8s/LRAPlacement-v0"
	subclusterID = "k8s/LRASubcluster-v0"
)

var ctx = context.Background()

func TestContract(t *testing.T) {
	for i, tc := range []struct {
		name, id string
		opts     map[string]any
		baseline bool
	}{
		{"placement", placementID, map[string]any{}, true},
		{"dense, shuffled", placementID, map[string]any{"nodes": 3, "containers": 22, "order": "shuffled", "table_seed": 7}, true},
		{"online", placementID, map[string]any{"nodes": 12, "containers": 60, "arrivals": "online", "load": 0.95}, false},
		{"online, vacant, terminal", placementID, map[string]any{"nodes": 5, "containers": 20, "arrivals": "online", "objective": "vacant", "reward": "terminal"}, false},
		{"kinds of nodes", placementID, map[string]any{"nodes": 10, "containers": 40, "classes": []string{"0.5:8:1", "0.3:4:1.5", "0.2:6:0.8"}}, true},
		{"constraints", placementID, map[string]any{"nodes": 12, "containers": 40, "order": "shuffled", "spread": 2, "restrict": []string{"isr:0.5", "ckm:0.3"}, "soft_violations": 0.05}, true},
		{"slo, terminal", placementID, map[string]any{"nodes": 4, "containers": 18, "objective": "slo", "reward": "terminal"}, true},
		{"remap", placementID, map[string]any{"nodes": 3, "containers": 23, "full": "remap", "split": "heldout"}, true},
		{"sub-cluster", subclusterID, map[string]any{"containers": 30}, true},
		{"sub-cluster, online", subclusterID, map[string]any{"nodes": 9, "containers": 40, "arrivals": "online"}, false},
		{"sub-cluster, remap", subclusterID, map[string]any{"nodes": 3, "containers": 20, "full": "remap"}, true},
		{"sub-cluster, sizes drawn", subclusterID, map[string]any{"containers": 30, "min_containers": 2}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			envstest.EveryThird(t, i)
			steps := 600
			if testing.Short() {
				steps = 150
			}
			envcheck.Run(t, envstest.Spec(t, tc.id), envcheck.Options{Options: tc.opts, Steps: steps, SkipBaselines: !tc.baseline})
		})
	}
}

func TestContractOnData(t *testing.T) {
	dir := lratest.Dir(t)
	for _, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"plan on one table, score on another", map[string]any{
			"table": filepath.Join(dir, "node_table_rf_p05.csv"), "score_table": filepath.Join(dir, "node_table_true_6435.csv"),
			"batches": filepath.Join(dir, "batch_set_400.csv"), "split": "heldout"}},
		{"one batch", map[string]any{"batches": filepath.Join(dir, "batch_set_200.csv"), "batch": 3, "order": "shuffled"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			envcheck.Run(t, envstest.Spec(t, placementID), envcheck.Options{Options: tc.opts, Steps: 200, SkipBaselines: testing.Short()})
		})
	}
}

// TestAskedOnTheWayDown: a policy that was asked at the root of one choice is asked again half-way down
// another, where what it took before is full by now. Node 0 has the fewest containers at first.
func TestAskedOnTheWayDown(t *testing.T) {
	lratest.CheckAskedOnTheWayDown(t, subclusterID, "least_loaded", map[string]any{"nodes": 9, "containers": 40})
}

// TestPlannersEnd: planners of whole batches end with their context, and can then start again.
func TestPlannersEnd(t *testing.T) {
	v := envstest.Open(t, placementID, 1, envs.VecOptions{Options: map[string]any{"nodes": 9, "containers": 40}})
	envstest.Reset(t, v, 1)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	action := make([]float32, 1)
	for _, name := range []string{"greedy_app_order", "greedy_best_of_21", "greedy_local_search", "medea", "milp"} {
		policy := envstest.Policy(t, v, name)
		if err := policy(ended, v.Env(0).State(), true, action); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v, want Canceled", name, err)
		}
		if err := policy(ctx, v.Env(0).State(), true, action); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, tc := range []struct {
		id   string
		opts map[string]any
		want string
	}{
		{placementID, map[string]any{"node": 3}, `did you mean "nodes"?`},
		{placementID, map[string]any{"nodes": 0}, "nodes is 0, want 1 to 100000"},
		{placementID, map[string]any{"containers": 649}, "containers is 649, want at most 648"},
		{placementID, map[string]any{"order": "random"}, `order is "random", want one of ["apps" "shuffled"]`},
		{placementID, map[string]any{"batch": 3}, "batch 3 needs batches"},
		{placementID, map[string]any{"arrivals": "online", "batches": "x.csv"}, "batches and batch are of batch arrivals only"},
		{placementID, map[string]any{"classes": []string{"0.5:8:1"}}, "add up to 0.5, want 1"},
		{placementID, map[string]any{"classes": []string{"1:9:1"}}, `class "1:9:1", want`},
		{placementID, map[string]any{"restrict": []string{"mongo:0.5"}}, `restrict "mongo:0.5", want application:share`},
		{placementID, map[string]any{"soft_violations": 0.1}, "soft_violations needs restrict"},
		{placementID, map[string]any{"full": "remap", "spread": 1}, "full:remap knows neither"},
		{subclusterID, map[string]any{"nodes": 28}, "28 is no power of 3"},
	} {
		envstest.CheckInvalid(t, tc.id, tc.opts, tc.want)
	}
}
