package balance

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestGreedyIsExact: at every decision of episodes Greedy chooses the node that comparing the exact costs of
// all nodes chooses.
func TestGreedyIsExact(t *testing.T) {
	for name, opts := range map[string]map[string]any{
		"equal nodes": {"nodes": 30}, "mixed": {"nodes": 30, "node_types": "mixed", "pods": "mixed", "memory_heavy": 0.25},
		"usage": {"nodes": 12, "measure": "usage", "pods": "mixed"}, "spread": {"nodes": 12, "objective": "spread"}, "pack": {"nodes": 12, "objective": "pack"},
	} {
		t.Run(name, func(t *testing.T) {
			v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
			task := v.Env(0).Task().(*Task)
			decisions := 0
			for b := envstest.Reset(t, v, 5); !b.Done(0); decisions++ {
				s := v.Env(0).State()
				want := cheapest(t.Context(), task, s, b.Mask)
				if got := greedy(t.Context(), task, s, b.Mask); got != want {
					t.Fatalf("decision %d: node %d, want %d", decisions, got, want)
				}
				b = envstest.Step(t, v, float32(want))
			}
			if decisions < 30 {
				t.Errorf("%d decisions, want 30 at least", decisions)
			}
		})
	}
}
