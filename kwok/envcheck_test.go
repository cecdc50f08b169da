package kwok

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// short are options that make an episode a few decisions long.
var short = map[string]map[string]any{
	"k8s/GangForecast-v0":                  {"steps": 2},
	"k8s/GangWindow-v0":                    {"steps": 12},
	"k8s/GPUPodScheduling-v0":              {"num_nodes": 8, "dynamics": "timed", "num_pods": 10},
	"k8s/GPUPodScheduling-v1":              {"num_nodes": 8, "num_pods": 10, "load_end": 0.2},
	"k8s/GPUPodScheduling-v2":              {"num_nodes": 8, "num_pods": 10, "load_end": 0.2},
	"k8s/LRAOnline-v0":                     {"nodes": 4, "containers": 6},
	"k8s/LRAPlacement-v0":                  {"containers": 10},
	"k8s/LRASubcluster-v0":                 {"containers": 4},
	"k8s/LRAHierarchical-v0":               {"containers": 10},
	"k8s/PodBalance-v0":                    {"reset_pods": []any{8, 4}},
	"k8s/VerticalPodAutoscaler-v0":         {"steps": 12},
	"k8s/VerticalPodAutoscaler-v1":         {"steps": 12},
	"k8s/VerticalPodAutoscalerDiscrete-v0": {"steps": 12, "mode": "InPlaceOrRecreate"},
}

// TestContract checks every twin as any environment is checked.
func TestContract(t *testing.T) {
	t.Setenv(KubeconfigVariable, kwoktest.Shared(t).Kubeconfig)
	for _, s := range originals() {
		t.Run(TwinID(s.ID), func(t *testing.T) {
			twin, err := envs.Lookup(TwinID(s.ID))
			if err != nil {
				t.Fatal(err)
			}
			envcheck.Run(t, twin, envcheck.Options{Options: short[s.ID], Steps: 60})
		})
	}
}
