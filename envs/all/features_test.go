package all_test

import (
	"fmt"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// TestFeatures: every element of every environment's observation has a name, also where options
// change the observation, and it stands at the index that the package's table gives.
func TestFeatures(t *testing.T) {
	type element struct {
		part, row int // of Features; of Names
		name      string
	}
	for _, tc := range []struct {
		id       string
		options  map[string]any
		elements []element // by the tables of the package comments
	}{
		{"classic/CartPole-v1", nil, []element{{0, 2, "pole_angle"}}},
		{"k8s/GangWindow-v0", nil, []element{{0, 7, "duration_action_1_step_1"}, {0, 24, "size_task_0"}, {0, 39, "share_task_7"}, {0, 40, "steps_since_plan"}}},
		{"k8s/GangWindow-v0", map[string]any{"windows": 5, "horizon": 2}, []element{{0, 12, "size_task_0"}}},
		{"k8s/GangForecast-v0", nil, []element{{0, 7, "size_8_steps_ago"}, {0, 13, "forecast_step_5"}, {0, 14, "size_1_days_ago_step_-4"}, {0, 83, "size_7_days_ago_step_5"}, {0, 88, "steps_since_plan"}}},
		{"k8s/PodBalance-v0", nil, []element{{0, 4, "pods"}, {0, 13, "fits"}, {1, 3, "replicas_before"}, {1, 6, "cluster_pods"}}},
		{"k8s/PodBalance-v0", map[string]any{"edges": "rack"}, []element{{2, 1, "target"}, {3, 0, "exists"}}},
		{"k8s/GPUPodScheduling-v0", map[string]any{"scores": true}, []element{{0, 15, "free_device_7"}, {0, 20, "model_pressure"}, {0, 23, "score_fgd"}, {1, 10, "hours_waited"}, {1, 19, "outlook_constrained"}}},
		{"k8s/GPUPodScheduling-v0", map[string]any{"scores": false, "edges": "model"}, []element{{0, 21, "model_supply"}, {2, 0, "source"}}},
		{"k8s/LRAPlacement-v0", nil, []element{{0, 0, "containers_redis"}, {0, 7, "free_slots"}, {0, 10, "speed"}, {1, 14, "remaining"}, {1, 16, "violations_left"}}},
		{"k8s/LRASubcluster-v0", nil, []element{{0, 9, "gain"}, {1, 17, "level_0"}}},
		{"k8s/LRAHierarchical-v0", map[string]any{"tree": true, "nodes": 243}, []element{{0, 8, "value"}, {1, 17, "level_0"}}},
		{"k8s/LRAOnline-v0", nil, []element{{0, 8, "index"}, {0, 9, "margin_redis"}, {0, 22, "margin_after_isr"}, {1, 14, "running"}, {1, 35, "tenth_index_isr"}}},
		{"k8s/LRAPricing-v0", nil, []element{{0, 7, "remaining"}, {0, 9, "inverse_nodes_left"}}},
		{"k8s/LRAPricing-v0", map[string]any{"arrivals": "online"}, []element{{0, 6, "running_isr"}, {0, 9, "cluster_value"}}},
		{"k8s/VerticalPodAutoscaler-v0", nil, []element{{0, 2, "cpu_limit"}, {0, 15, "memory_used_over_requested"}, {0, 17, "cos_day"}, {0, 24, "oom_kills"}, {0, 28, "episode_over"}}},
		{"k8s/VerticalPodAutoscaler-v1", map[string]any{"encoding": "residual"}, []element{{0, 29, "node_cpu"}, {0, 36, "room_memory"}, {0, 40, "qos_class"}, {0, 41, "cpu_used_over_base"}, {0, 48, "cpu_base_guard"}, {0, 49, "memory_used_over_base"}}},
		{"k8s/VerticalPodAutoscalerDiscrete-v0", map[string]any{"safety": "memory"}, []element{{0, 36, "cpu_upstream_upper_bound_over_upstream_target"}, {0, 37, "memory_used_over_upstream_target"}}},
	} {
		t.Run(fmt.Sprint(tc.id, tc.options), func(t *testing.T) {
			v, err := envs.Make(tc.id, 1, envs.VecOptions{Options: tc.options})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			obs, _ := v.Spaces()
			features := v.Features()
			if err := envcheck.CheckFeatures(obs, features); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.elements {
				if got := features[want.part].Names[want.row]; got != want.name {
					t.Errorf("element %d of part %d is called %q, want %q", want.row, want.part, got, want.name)
				}
			}
		})
	}
	for _, spec := range envs.Specs() {
		if spec.Backend != nil { // a twin on an API server has the task of its simulator
			continue
		}
		v, err := envs.NewVec(spec, 1, envs.VecOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if v.Features() == nil {
			t.Errorf("%s names no element of its observations", spec.ID)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}
