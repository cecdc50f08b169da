package clustertrace_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// TestWriteState writes a cluster whose history is known, op by op.
func TestWriteState(t *testing.T) {
	s := cluster.NewState()
	apply := func(at time.Duration, ops ...cluster.Op) {
		t.Helper()
		s.Now = at
		for i := range ops {
			if err := s.Apply(&ops[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	node := s.Intern(cluster.Meta{Name: "n0", GPUModel: "T4", Labels: []cluster.Label{{Key: "zone", Value: "a"}}, Taints: []cluster.Taint{{Key: "gpu", Effect: cluster.NoSchedule}}})
	web := s.Intern(cluster.Meta{
		Name: "web", NodeSelector: []cluster.Label{{Key: "zone", Value: "a"}}, Tolerations: []cluster.Toleration{{Key: "gpu", Operator: cluster.TolerationExists}},
	})
	pod := s.Intern(cluster.Meta{Name: "pod", GPUModels: []string{"T4"}, Tolerations: []cluster.Toleration{{Operator: cluster.TolerationExists}}})
	one := cluster.Resources{MilliCPU: 1000, MemoryBytes: 5}
	apply(0, cluster.Op{Kind: cluster.AddNode, Meta: node, Resources: cluster.Resources{MilliCPU: 4000, MemoryBytes: 100}, MaxPods: 9, GPUs: 2, MilliGPU: 1000})
	apply(0, cluster.Op{Kind: cluster.AddPod, Meta: web, Resources: one}, cluster.Op{Kind: cluster.Bind, Pod: 0})
	apply(time.Second+time.Microsecond, cluster.Op{Kind: cluster.AddPod, Meta: pod, Resources: one, GPUs: 1, MilliGPU: 500})
	apply(2*time.Second, cluster.Op{Kind: cluster.Evict, Pod: 0}, cluster.Op{Kind: cluster.Bind, Pod: 1, Devices: 2})
	apply(3*time.Second, cluster.Op{Kind: cluster.AddPod, Meta: web, Resources: one}, cluster.Op{Kind: cluster.Delete, Pod: 2})
	s.Now = 5 * time.Second
	if err := s.Complete(1); err != nil {
		t.Fatal(err)
	}

	var b bytes.Buffer
	w, err := clustertrace.NewWriter(&b, clustertrace.Header{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	if err := clustertrace.WriteState(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(s.Now); err != nil {
		t.Fatal(err)
	}
	r, err := clustertrace.NewReader("state", &b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := clustertrace.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	never := clustertrace.Never
	wantPods := []clustertrace.PodLife{
		{Name: "web-0", Template: 0, Node: 0, Phase: clustertrace.Failed, Bound: 0, Started: never, Finished: 2 * time.Second, Deleted: never},
		{Name: "pod-1", Template: 1, Node: 0, Devices: []int{1}, Phase: clustertrace.Succeeded, Created: time.Second, Bound: 2 * time.Second, Started: never, Finished: 5 * time.Second, Deleted: never},
		{Name: "web-2", Template: 0, Node: -1, Created: 3 * time.Second, Bound: never, Started: never, Finished: never, Deleted: 3 * time.Second},
	}
	if diff := cmp.Diff(wantPods, got.Pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	wantTemplates := []*clustertrace.Template{
		{
			Namespace: "default", Owner: "ReplicaSet/web", MilliCPU: 1000, MemoryBytes: 5, NodeSelector: map[string]string{"zone": "a"},
			Tolerations: []clustertrace.Toleration{{Key: "gpu", Operator: "Exists"}},
		},
		{Namespace: "default", MilliCPU: 1000, MemoryBytes: 5, GPUs: 1, MilliGPU: 500, GPUModels: []string{"T4"}, Tolerations: []clustertrace.Toleration{{Operator: "Exists"}}},
	}
	if diff := cmp.Diff(wantTemplates, got.Templates); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
	wantNode := &clustertrace.Node{
		Name: "n0", MilliCPU: 4000, MemoryBytes: 100, Pods: 9, GPUs: 2, MilliGPU: 1000, GPUModel: "T4",
		Labels: map[string]string{"zone": "a"}, Taints: []clustertrace.Taint{{Key: "gpu", Effect: "NoSchedule"}},
	}
	if diff := cmp.Diff(wantNode, got.Nodes[0].Last()); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}

	apply(6*time.Second, cluster.Op{Kind: cluster.RemoveNode, Node: 0})
	if err := clustertrace.WriteState(w, s); err == nil {
		t.Error("a node that was removed is no error")
	}
}
