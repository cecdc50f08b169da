package plugin

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/kwok/mirror"
)

// TestPodGroupCycle: within the cycle of a pod group kube-scheduler assumes pods in its snapshot, and forgets them,
// without new generations. The policy sees them all the same: Greedy puts four pods on two nodes in turn. When all are
// forgotten, it begins again.
func TestPodGroupCycle(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 2 {
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}, Status: corev1.NodeStatus{Allocatable: sized(32000, 131072)}})
	}
	shown := cache.NewSnapshot(nil, nodes)
	p := &Plugin{mirror: mirror.New(nil), pods: corelisters.NewPodLister(clientcache.NewIndexer(clientcache.MetaNamespaceKeyFunc, clientcache.Indexers{}))}
	var err error
	if p.policy, err = live.Open(live.Args{Baseline: "Greedy"}, 2); err != nil {
		t.Fatal(err)
	}
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(framework.NewCycleState())
	for round := range 2 {
		var assumed []*corev1.Pod
		for i := range 4 {
			infos, err := shown.NodeInfos().List()
			if err != nil {
				t.Fatal(err)
			}
			pod := benchPod(i)
			if err := p.mirror.Sync(snapshot{infos: infos, groups: &p.groups, without: pod.UID}); err != nil {
				t.Fatal(err)
			}
			d, err := p.choose(t.Context(), mirror.Question{Pod: pod, Open: []string{"node-0", "node-1"}, Replicas: 1, Now: time.Unix(0, 0)})
			if err != nil {
				t.Fatal(err)
			}
			pod.Spec.NodeName = d.node
			if want := fmt.Sprintf("node-%d", i%2); pod.Spec.NodeName != want {
				t.Errorf("round %d: pod %d is for %s, want %s", round, i, pod.Spec.NodeName, want)
			}
			info, err := framework.NewPodInfo(pod)
			if err != nil {
				t.Fatal(err)
			}
			if err := shown.AssumePod(info); err != nil {
				t.Fatal(err)
			}
			if s := p.Reserve(t.Context(), state, pod, pod.Spec.NodeName); !s.IsSuccess() {
				t.Fatal(s.AsError())
			}
			assumed = append(assumed, pod)
		}
		for _, pod := range assumed {
			p.Unreserve(t.Context(), state, pod, pod.Spec.NodeName)
			if err := shown.ForgetPod(klog.Background(), pod); err != nil {
				t.Fatal(err)
			}
		}
	}
}
