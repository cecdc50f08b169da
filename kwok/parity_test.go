package kwok

import (
	"context"
	"testing"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// parityOptions are settings of the environments that use more of the API than the defaults do.
var parityOptions = map[string][]map[string]any{
	"k8s/GPUPodScheduling-v0": {
		{"dynamics": "timed", "num_nodes": 16, "num_pods": 60, "defer": true, "sharing": 0.5, "multi_gpu": 0.2, "constrained_high": 0.5},
	},
	"k8s/LRAPlacement-v0": {{"arrivals": "online", "nodes": 9, "containers": 40}},
	"k8s/GangWindow-v0": {
		{"penalty_model": "resize"}, {"penalty_model": "per_task"},
	},
	"k8s/PodBalance-v0": {
		{"nodes": 7, "node_types": "mixed", "pods": "mixed", "memory_heavy": 0.3, "lifetime": 900.0, "steps": 120, "usage_min": 0.2, "measure": "usage"},
		{"reset_pods": []any{20, 20}},
	},
	"k8s/VerticalPodAutoscaler-v0": {
		{"pods": 3, "mode": "InPlaceOrRecreate"},
		{"pods": 2, "mode": "InPlace", "node_cpu_m": 8000, "node_memory_mib": 16384, "resize_policy": "RestartContainer"},
	},
}

// TestParity plays 3 episodes of 50 decisions of each environment on both backends.
func TestParity(t *testing.T) {
	server := Options{Kubeconfig: kwoktest.Shared(t).Kubeconfig}
	for _, s := range originals() {
		for _, opts := range append([]map[string]any{nil}, parityOptions[s.ID]...) {
			r, err := Parity(context.Background(), ParityConfig{Env: s.ID, Episodes: 3, Decisions: 50, Options: opts, Server: server})
			if err != nil {
				t.Fatalf("%s with %v: %v", s.ID, opts, err)
			}
			for _, d := range r.Differences {
				t.Errorf("%s with %v: episode %d, decision %d: %s differs:\n%s", s.ID, opts, d.Episode, d.Decision, d.What, d.Detail)
			}
			if r.Episodes != 3 || r.Decisions < 100 {
				t.Errorf("%s with %v: %d episodes with %d decisions, want 3 with 100 or more", s.ID, opts, r.Episodes, r.Decisions)
			}
			t.Logf("%s with %v: %d decisions, %d pods, %.1f s", s.ID, opts, r.Decisions, r.Pods, r.Seconds)
		}
	}
}
