package balance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// playFile plays deployments of a file by a baseline on equal nodes, and returns the node of each
// pod, and the last batch.
func playFile(t *testing.T, baseline string, nodes int, rows string) ([]int, *envs.Vec, *envs.Batch) {
	t.Helper()
	path := envstest.TempFile(t, "deployments.csv", "name,pod_count,cpu_request,mem_request\n"+rows)
	v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Autoreset: envs.Disabled, Options: map[string]any{"nodes": nodes, "deployments": path}})
	b := envstest.Reset(t, v, 1)
	policy := envstest.PolicyOf(t, v.Spec(), v.Env(0).Task(), baseline)
	var placed []int
	for action := make([]float32, 1); !b.Terminated[0]; {
		if err := policy(t.Context(), v.Env(0).State(), b.Begins(0), action); err != nil {
			t.Fatal(err)
		}
		placed = append(placed, int(action[0]))
		b = envstest.Step(t, v, action...)
	}
	return placed, v, b
}

// TestPodsWithoutRequestsAreCounted: policies count 100 milliCPU and 200 MiB for a pod that requests
// nothing, as kube-scheduler does, so that they do not put all of them onto one node.
func TestPodsWithoutRequestsAreCounted(t *testing.T) {
	for _, baseline := range []string{"Greedy", "KubeDefault"} {
		placed, _, b := playFile(t, baseline, 3, "a,60,0,0\n")
		for node := range 3 {
			n := 0
			for _, p := range placed {
				if p == node {
					n++
				}
			}
			if n != 20 {
				t.Errorf("%s: %d of 60 pods on node %d, want 20", baseline, n, node)
			}
		}
		// Rewards and diagnostics are of requests alone, as before: there are none.
		if b.EpisodeReturn[0] != 0 {
			t.Errorf("%s: return %v, want 0", baseline, b.EpisodeReturn[0])
		}
	}
	// Its scores are whole numbers, so that pods this small go to one node until it is full by 1 %.
	if placed, _, _ := playFile(t, "LeastAllocated", 3, "a,60,0,0\n"); slices.Max(placed) != 2 {
		t.Errorf("LeastAllocated: %v, want pods on every node", placed)
	}
	if placed, _, _ := playFile(t, "MostAllocated", 3, "a,60,0,0\n"); slices.Max(placed) != 0 {
		t.Errorf("MostAllocated: %v, want all pods on node 0", placed)
	}
	// By hand, on two nodes: the pod of 200 m and 400 Mi counts as two without requests, so that
	// these go to node 1 until it has two, and then in turn. One of the pods without requests has
	// memory alone: it counts 100 m.
	placed, v, b := playFile(t, "Greedy", 2, "sized,1,200m,400Mi\nnone,4,0,0\nmemory,1,0,200Mi\n")
	if want := []int{0, 1, 1, 0, 1, 0}; !slices.Equal(placed, want) {
		t.Errorf("Greedy places %v, want %v", placed, want)
	}
	// Node 0 then counts 400 m of 64 CPU and 800 Mi of 256 Gi, node 1 three pods.
	for node, pods := range []float32{4, 3} {
		row := b.Obs[node*nodeFeatures:][:nodeFeatures]
		if got, want := row[:2], []float32{pods * 100 / 64000, pods * 200 / (256 << 10)}; !slices.Equal(got, want) {
			t.Errorf("observation of node %d: shares %v, want %v", node, got, want)
		}
	}
	if cpu := b.Info[v.Spec().Column("cpu_load")]; cpu != 200./128000 {
		t.Errorf("cpu_load %v, want that of the requests, 200 m of 128 CPU", cpu)
	}
}

// TestAttendCountsContainers: in a running cluster containers count one by one, as they are given.
func TestAttendCountsContainers(t *testing.T) {
	live, err := newLive(nil, 2)
	if err != nil {
		t.Fatal(err)
	}
	s := cluster.NewState()
	node := cluster.Resources{MilliCPU: 1000, MemoryBytes: 2000 << 20}
	small := cluster.Resources{MilliCPU: 100, MemoryBytes: 200 << 20}
	for _, op := range []cluster.Op{
		{Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: "a"}), Resources: node, MaxPods: 10},
		{Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: "b"}), Resources: node, MaxPods: 10},
		{Kind: cluster.AddPod, Meta: s.Intern(cluster.Meta{Name: "p"}), Resources: small},
		{Kind: cluster.Bind, Pod: 0, Node: 1},
		{Kind: cluster.AddPod, Meta: s.Intern(cluster.Meta{Name: "p"})},
	} {
		if err := s.Apply(&op); err != nil {
			t.Fatal(err)
		}
	}
	policy := envstest.PolicyOf(t, &envs.Spec{ID: "k8s/PodBalance-v0", Baselines: baselines}, live, "Greedy")
	for _, tc := range []struct {
		onA  int64 // containers without requests on a
		want float32
	}{{0, 0}, {1, 0}, {2, 1}} { // b counts one pod; with one each, ties go to a
		d := envs.Decision{Pod: 1, Replicas: 1, PodExtra: small, Extra: []cluster.Resources{{MilliCPU: tc.onA * 100, MemoryBytes: tc.onA * 200 << 20}, {}}}
		if err := live.Attend(s, d); err != nil {
			t.Fatal(err)
		}
		action := make([]float32, 1)
		if err := policy(t.Context(), s, true, action); err != nil || action[0] != tc.want {
			t.Errorf("with %d containers on a: node %v, %v; want %v", tc.onA, action[0], err, tc.want)
		}
		obs, mask := make([]float32, 2*nodeFeatures+podFeatures), make([]bool, 2)
		live.Observe(s, obs, mask)
		if got, want := fmt.Sprint(obs[0], obs[5], obs[2*nodeFeatures]), fmt.Sprint(float32(tc.onA)/10, float32(0.1), float32(0.1)); got != want {
			t.Errorf("with %d containers on a: share, part and size of the pod are %s, want %s", tc.onA, got, want)
		}
	}
}
