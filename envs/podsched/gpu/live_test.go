package gpu

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// A task that attends the cluster of an episode from outside, where the pods to come wait
// already, sees what the episode's own task sees, and its baselines choose alike.
func TestLiveSeesWhatTheEpisodeSees(t *testing.T) {
	opts := map[string]any{"num_nodes": 12, "load_end": 0.6, "edges": "model", "whole_gpus": true}
	v, task := open(t, opts)
	b := reset(t, v, 3)
	live, err := v.Spec().Live(maps.Clone(opts), 12)
	if err != nil {
		t.Fatal(err)
	}
	var policies, livePolicies []envs.Policy
	for _, name := range []string{"WeightedFGD", "FGD", "BestFit", "KubeDefault", "DotProd"} {
		policies, livePolicies = append(policies, envstest.Policy(t, v, name)), append(livePolicies, envstest.PolicyOf(t, v.Spec(), live, name))
	}
	obs, mask := make([]float32, len(b.Obs)), make([]bool, len(b.Mask))
	action, liveAction := make([]float32, 1), make([]float32, 1)
	decisions := 0
	for ; !b.Terminated[0] && task.failed == 0; decisions++ {
		s := v.Env(0).State().Clone()
		for i := task.next; i < len(task.in.Arrivals); i++ { // the pods to come
			c := task.class(int32(i))
			op := cluster.Op{
				Kind: cluster.AddPod, Meta: s.Intern(cluster.Meta{Name: "pod", GPUModels: gpushare.SplitModels(c.Models)}), GPUs: uint8(c.GPUs), MilliGPU: c.MilliGPU,
				Resources: cluster.Resources{MilliCPU: c.MilliCPU, MemoryBytes: c.MemoryMiB * gpushare.BytesMiB},
			}
			if err := s.Apply(&op); err != nil {
				t.Fatal(err)
			}
		}
		if err := live.Attend(s, envs.Decision{Pod: task.current, Replicas: 1}); err != nil {
			t.Fatal(err)
		}
		live.Observe(s, obs, mask)
		if !slices.Equal(mask, b.Mask) {
			t.Fatalf("decision %d: attended mask %v, want %v as in the episode", decisions, mask, b.Mask)
		}
		for i := range obs {
			if obs[i] != b.Obs[i] {
				t.Fatalf("decision %d: attended observation [%d] is %v, want %v as in the episode", decisions, i, obs[i], b.Obs[i])
			}
		}
		for k := len(policies) - 1; k >= 0; k-- { // the first one plays
			if err := policies[k](t.Context(), v.Env(0).State(), decisions == 0, action); err != nil {
				t.Fatal(err)
			}
			planned := task.devices
			if err := livePolicies[k](t.Context(), s, true, liveAction); err != nil {
				t.Fatal(err)
			}
			if liveAction[0] != action[0] || live.Devices(int32(liveAction[0])) != planned {
				t.Fatalf("decision %d: attended, rule %d chooses node %v devices %b, want %v and %b as in the episode",
					decisions, k, liveAction[0], live.Devices(int32(liveAction[0])), action[0], planned)
			}
		}
		b = step(t, v, action...)
	}
	if decisions < 30 {
		t.Errorf("%d decisions before the first pod failed, want 30 at least", decisions)
	}
}

// TestLiveHasDefaultsOfItsVersion: a model of version 2 names no options, and sees in a running cluster what it saw in training.
func TestLiveHasDefaultsOfItsVersion(t *testing.T) {
	for id, want := range map[string]int{"k8s/GPUPodScheduling-v1": 25, "k8s/GPUPodScheduling-v2": 28} {
		live, err := envstest.Spec(t, id).Live(nil, 4)
		if err != nil {
			t.Fatal(err)
		}
		if got := live.(*Task).nodeFeatures(); got != want {
			t.Errorf("%s shows %d columns of a node in a running cluster, want %d", id, got, want)
		}
	}
}

func TestAttendRefuses(t *testing.T) {
	if _, err := newLive(DefaultOptions)(map[string]any{"defer": true}, 2); err == nil || !strings.Contains(err.Error(), "defer") {
		t.Errorf("newLive with defer = %v, want an error that names it", err)
	}
	live, err := newLive(DefaultOptions)(nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	for want, gpus := range map[string]uint8{"none of the 1 nodes": 0, "9 GPUs": 9, "500": 4} {
		s := cluster.NewState()
		size := cluster.Resources{MilliCPU: 4000, MemoryBytes: 8 << 30}
		ops := []cluster.Op{
			{Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: "a", GPUModel: "T4"}), Resources: size, GPUs: gpus, MilliGPU: 1000},
			{Kind: cluster.AddPod, Meta: s.Intern(cluster.Meta{Name: "p"}), Resources: size, GPUs: 2, MilliGPU: 500},
		}
		if gpus == 0 {
			ops[0].MilliGPU = 0
		}
		for i := range ops {
			if err := s.Apply(&ops[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := live.Attend(s, envs.Decision{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Attend to a node of %d GPUs = %v, want an error with %q", gpus, err, want)
		}
	}
}
