package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/mirror"
)

// TestUnreserved: a pod whose binding fails is pending again, unless it has been deleted meanwhile.
func TestUnreserved(t *testing.T) {
	metrics.Register()
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	profile := config.KubeSchedulerProfile{SchedulerName: "test", Plugins: &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}}, Bind: config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
	}}
	f, err := frameworkruntime.NewFramework(t.Context(), plugins.NewInTreeRegistry(), &profile, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory))
	if err != nil {
		t.Fatal(err)
	}
	p := &Plugin{handle: f, mirror: mirror.New(nil)}
	if err := p.followPods(); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: corev1.NodeStatus{Allocatable: sized(32000, 131072)}})
	pending := func() (n int) {
		if err := p.mirror.Sync(snapshot{infos: []fwk.NodeInfo{info}, groups: &p.groups}); err != nil {
			t.Fatal(err)
		}
		p.mirror.View(func(s *cluster.State, _ []*corev1.Node) {
			for i := range s.Pods {
				if s.Pods[i].Phase == cluster.Pending {
					n++
				}
			}
		})
		return n
	}
	await := func(want int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); pending() != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d pods are pending, want %d", pending(), want)
			}
		}
	}
	var pods []*corev1.Pod
	for i := range 2 {
		pod := benchPod(i)
		pod.Spec.SchedulerName, pod.Status.Phase = "test", corev1.PodPending
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	await(2)
	if err := client.CoreV1().Pods("default").Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(1)
	for _, pod := range pods {
		p.Unreserve(t.Context(), framework.NewCycleState(), pod, "node")
	}
	if n := pending(); n != 1 {
		t.Errorf("%d pods are pending after their bindings have failed, want the one that exists", n)
	}
}
