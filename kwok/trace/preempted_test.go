package trace_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/kwok/trace"
)

// TestPreempted: the end of a pod that a scheduler evicted says so; other ends do not.
func TestPreempted(t *testing.T) {
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("10")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: size}}
	pod := func(name, reason string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		p.Spec.NodeName = "n"
		p.Status.Phase = corev1.PodRunning
		if reason != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}
		}
		return p
	}
	client := fake.NewClientset(node, pod("evicted", corev1.PodReasonPreemptionByScheduler), pod("drained", "EvictionByEvictionAPI"), pod("failed", corev1.PodReasonPreemptionByScheduler), pod("done", ""))
	path := filepath.Join(t.TempDir(), "t.jsonl")
	stop := recording(t, client, path, nil)
	eventually(t, func() string { // the fake client tells only watches of a deletion
		if !slices.ContainsFunc(client.Actions(), func(a ktesting.Action) bool { return a.Matches("watch", "pods") }) {
			return "no watch of pods"
		}
		return ""
	})
	for _, name := range []string{"evicted", "drained"} {
		if err := client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, phase := range map[string]corev1.PodPhase{"failed": corev1.PodFailed, "done": corev1.PodSucceeded} {
		p, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Status.Phase = phase
		if _, err := client.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stop(func(sofar *clustertrace.Trace) string {
		for _, p := range sofar.Pods {
			if p.Finished == clustertrace.Never && p.Deleted == clustertrace.Never {
				return p.Name + " has no end"
			}
		}
		return ""
	})
	r, err := clustertrace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var names []string
	ends := map[string]bool{}
	for {
		e, err := r.Next()
		if err != nil {
			break
		}
		switch e.Kind {
		case clustertrace.AddPod:
			names = append(names, e.Name)
		case clustertrace.FinishPod, clustertrace.DeletePod:
			ends[names[e.Pod]] = e.Preempted
		}
	}
	for name, want := range map[string]bool{"evicted": true, "drained": false, "failed": true, "done": false} {
		if got, ok := ends[name]; !ok || got != want {
			t.Errorf("%s: preempted %v, %v, want %v", name, got, ok, want)
		}
	}
}

// TestRecordedHostPorts: the ports that kube-scheduler's GetHostPorts counts, those of containers and of sidecars, are recorded;
// those of other init containers, which have ended when the containers start, are not.
func TestRecordedHostPorts(t *testing.T) {
	container := func(name string, port int32, restart *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{Name: name, RestartPolicy: restart, Ports: []corev1.ContainerPort{{HostPort: port, ContainerPort: port, Protocol: corev1.ProtocolTCP}, {ContainerPort: 9}}}
	}
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{container("init", 81, nil), container("sidecar", 82, &always)}, Containers: []corev1.Container{container("main", 80, nil)},
	}}
	got := recordOnce(t, fake.NewClientset(pod), filepath.Join(t.TempDir(), "t.jsonl"), nil)
	if d := cmp.Diff([]string{"TCP/:82", "TCP/:80"}, got.Templates[0].HostPorts); d != "" {
		t.Errorf("host ports (-want +got):\n%s", d)
	}
}

// TestReplayedSharedHostPort: a sidecar and a container may have the same host port. The one container of the replayed pod has
// it once, because AccumulateUniqueHostPorts of the API server's validation rejects a container with equal protocol, address
// and port twice. Other protocols and addresses are other ports.
func TestReplayedSharedHostPort(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	web := corev1.ContainerPort{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}
	udp, local := web, web
	udp.Protocol, local.HostIP = corev1.ProtocolUDP, "127.0.0.1"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "sidecar", RestartPolicy: &always, Ports: []corev1.ContainerPort{web}}},
		Containers:     []corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{web, udp, local}}},
	}}
	path := filepath.Join(t.TempDir(), "t.jsonl")
	recordOnce(t, fake.NewClientset(pod), path, nil)
	client := fake.NewClientset()
	if report, err := trace.Replay(t.Context(), client, path, trace.ReplayOptions{Speed: 1000, Scheduler: "default-scheduler"}); err != nil || report.Pods != 1 {
		t.Fatalf("%+v, %v, want one pod", report, err)
	}
	got, err := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]corev1.ContainerPort{web, udp, local}, got.Spec.Containers[0].Ports); d != "" {
		t.Errorf("host ports (-want +got):\n%s", d)
	}
}
