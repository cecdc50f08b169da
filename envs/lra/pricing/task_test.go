package pricing_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	_ "github.com/kubernasium/kubernasium/envs/lra/pricing"
)

const id = "k8s/LRAPricing-v0"

func TestContract(t *testing.T) {
	for i, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"pricing", map[string]any{"nodes": 12, "containers": 90, "min_containers": 60}},
		{"pricing, finish", map[string]any{"nodes": 12, "containers": 90, "finish": 4}},
		{"pricing, online", map[string]any{"nodes": 12, "containers": 60, "arrivals": "online", "period": 7, "reward": "gap"}},
		{"pricing, base duals", map[string]any{"nodes": 6, "containers": 40, "base": "duals", "scale": 0.05}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if testing.Short() && i > 0 {
				t.Skip("a step takes sweeps over all states, a linear program, or branch and bound; run without -short")
			}
			envcheck.Run(t, envstest.Spec(t, id), envcheck.Options{Options: tc.opts, Steps: 600})
		})
	}
}

func TestInvalidOptions(t *testing.T) {
	envstest.CheckInvalid(t, id, map[string]any{"reward": "gap"}, "reward gap is of online arrivals only")
	envstest.CheckInvalid(t, id, map[string]any{"period": -1}, "period is -1, want 0 to 1000000")
	envstest.CheckInvalid(t, id, map[string]any{"scale": 0.0}, "scale is 0, want 0.001 to 100")
	envstest.CheckInvalid(t, id, map[string]any{"finish": -1}, "finish is -1, want 0 to 1000000")
	envstest.CheckInvalid(t, id, map[string]any{"arrivals": "online", "base": "duals"}, "finish and base duals are of batch arrivals only")
	envstest.CheckInvalid(t, id, map[string]any{"arrivals": "online", "finish": 3}, "finish and base duals are of batch arrivals only")
}

// TestGoldenEpisodes pins episodes: a change of any law, draw or feature shows here and must be
// meant.
func TestGoldenEpisodes(t *testing.T) {
	for name, opts := range map[string]map[string]any{
		"batch":  {"nodes": 6, "containers": 40, "table_seed": 5},
		"online": {"nodes": 3, "containers": 12, "arrivals": "online", "period": 3},
	} {
		v := envstest.Open(t, id, 1, envs.VecOptions{Options: opts, Autoreset: envs.SameStep})
		envstest.Golden(t, name, envstest.Sampled(t, v, 42))
	}
}
