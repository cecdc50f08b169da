package plugin

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/kwok/mirror"
	"github.com/kubernasium/kubernasium/kwok/scorer"
)

// TestDryRunKeepsReservation: a pod that is asked about again without reserve stays on its node and its devices for later requests.
func TestDryRunKeepsReservation(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: corev1.NodeStatus{Allocatable: sized(1000, 4096)}}
	node.Annotations = map[string]string{"kubernasium.io/gpus": "1"}
	nodes, pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := nodes.Add(node); err != nil {
		t.Fatal(err)
	}
	s := &scoreService{plugin: &Plugin{}, nodes: corelisters.NewNodeLister(nodes), pods: corelisters.NewPodLister(pods), mirror: mirror.New(nil), reserved: map[types.UID]reservation{}}
	var err error
	if s.policy, err = live.Open(live.Args{Baseline: "FGD", Env: "k8s/GPUPodScheduling-v0"}, 1); err != nil {
		t.Fatal(err)
	}
	ask := func(i int, reserve bool) error {
		pod := benchPod(i)
		pod.Annotations = map[string]string{"kubernasium.io/gpus": "1", "kubernasium.io/milli-gpu": "600"}
		scores, err := s.choose(t.Context(), &scorer.Request{Pod: pod, Nodes: []corev1.Node{*node}, Reserve: reserve})
		if err == nil && scores["node"] != 100 {
			t.Errorf("pod %d: scores %v, want 100", i, scores)
		}
		return err
	}
	for _, reserve := range []bool{true, false, false} {
		if err := ask(1, reserve); err != nil {
			t.Fatalf("reserve %v: %v", reserve, err)
		}
	}
	if err := ask(2, false); !errors.Is(err, live.ErrUnschedulable) {
		t.Errorf("another pod gets %v, want that it fits no node: 600 of the GPU's 1000 thousandths are reserved", err)
	}
	if devices := s.mirror.Reserved("p1"); devices != 1 {
		t.Errorf("devices %b are reserved, want 1", devices)
	}
}
