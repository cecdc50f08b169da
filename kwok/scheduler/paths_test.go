package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// mixed is an instance with nodes and pods of several sizes, half full at its end.
var mixed = map[string]any{"nodes": 6, "node_types": "mixed", "pods": "mixed", "memory_heavy": 0.25, "resets": 1, "cpu_load": 0.5, "memory_load": 0.5, "pod_load": 0.5}

// TestSecondScheduler: deployments are placed as the same policy places them in the simulator, pod
// for pod.
func TestSecondScheduler(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	for _, name := range []string{"Greedy", "KubeDefault"} {
		load, want := w.episode(name, mixed, 3)
		c := w.config(byBaseline(t, balance, name, mixed))
		s, stop := w.run(c)
		got, err := load.Deploy(ctx, w.client, c.Name, patience, s.Knows)
		if err != nil {
			t.Fatal(err)
		}
		stop()
		compare(t, name, load, got, want)
	}
}

func compare(t *testing.T, name string, load *kwok.Workload, got, want kwok.Placements) {
	t.Helper()
	if got.Pods() != want.Pods() || want.Pods() < 50 {
		t.Errorf("%s: %d pods placed, want %d as in the simulator, and 50 at least", name, got.Pods(), want.Pods())
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: pods of each deployment on each node (-simulator +API server):\n%s", name, d)
	}
	_, a := load.Imbalance(got)
	_, b := load.Imbalance(want)
	t.Logf("%s: %d pods, imbalance %.3f %%, in the simulator %.3f %%", name, got.Pods(), a, b)
}
