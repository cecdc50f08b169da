package kwok

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// TestUsage: for the table of nodes and for the imbalance, pods request what kube-scheduler counts, with sidecars, init containers and overhead. Hand-worked: beside the sidecar of
// 200 m the init container of 1000 m runs first, 1200 m, and then the containers of 300 m, 500 m: the larger, and 50 m of overhead.
func TestUsage(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(name, cpu, memory string, restart *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{Name: name, RestartPolicy: restart, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}}
	}
	pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.PodSpec{
				NodeName: "n", Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")},
				InitContainers: []corev1.Container{container("proxy", "200m", "64Mi", &always), container("init", "1", "16Mi", nil)},
				Containers:     []corev1.Container{container("main", "300m", "0.5Gi", nil)},
			},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2500m"), corev1.ResourceMemory: resource.MustParse("1152Mi")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: size}}
	got, err := Usage(t.Context(), fake.NewClientset(node, pod("runs", corev1.PodRunning), pod("ended", corev1.PodSucceeded)))
	if err != nil || len(got) != 1 {
		t.Fatalf("%d nodes, %v, want one", len(got), err)
	}
	if want := (cluster.Resources{MilliCPU: 1250, MemoryBytes: 576 << 20}); got[0].Requested != want || got[0].Pods != 1 {
		t.Errorf("%d pods request %+v, want one that requests %+v", got[0].Pods, got[0].Requested, want)
	}
	// The shares of the node and of an empty one are 0.5 and 0, of both resources: deviations of 0.25.
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, n := range []*corev1.Node{node, {ObjectMeta: metav1.ObjectMeta{Name: "other"}, Status: node.Status}} {
		if err := nodes.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	var placed []Placement
	f := &placementFollower{selector: labels.Everything(), nodes: corelisters.NewNodeLister(nodes), pods: map[types.UID]podOnNode{}, placed: func(p Placement) { placed = append(placed, p) }}
	f.see(pod("runs", corev1.PodRunning), false)
	if len(placed) != 1 || placed[0] != (Placement{Node: 0, Imbalance: 25}) {
		t.Errorf("placements %v, want one with an imbalance of 25 %%", placed)
	}
}
