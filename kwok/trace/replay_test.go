package trace

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestReplayedLabels: an update takes from a pod the labels that it no longer has.
func TestReplayedLabels(t *testing.T) {
	const text = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"template","template":{"namespace":"ns","labels":{"app":"x","active":"yes"},"milli_cpu":500}}
{"k":"template","template":{"namespace":"ns","labels":{"app":"x"},"milli_cpu":500}}
{"k":"template","template":{"namespace":"ns","labels":{"role":"old"},"milli_cpu":500}}
{"k":"pod","name":"one"}
{"k":"update_pod","tpl":1}
{"k":"update_pod","tpl":2}
{"k":"end"}
`
	client := fake.NewClientset()
	report, err := Replay(t.Context(), client, envstest.TempFile(t, "labels.jsonl", text), ReplayOptions{})
	if err != nil || report.Skipped > 0 {
		t.Fatalf("%+v, %v, want nothing skipped", report, err)
	}
	got, err := client.CoreV1().Pods("ns").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"role": "old"}, got.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
}

// TestReplayedResources: the API server accepts pods with huge pages only with limits, and of the resources without a domain
// only those of Kubernetes. A recording that hides names has names of other resources without their domains.
func TestReplayedResources(t *testing.T) {
	n := names{[]byte("salt")}
	node := nodeObject(&clustertrace.Node{Name: "n", MilliCPU: 1000, MemoryBytes: 1 << 30, Pods: 110, Other: n.resources(map[string]int64{
		"hugepages-2Mi": 1 << 30, "ephemeral-storage": 1 << 30, "attachable-volumes-csi-a": 5, "example.com/disk": 4, "nvidia.com/mig-1g.5gb": 2,
	})})
	pod, err := podObject("p", &clustertrace.Template{MilliCPU: 100, MemoryBytes: 1 << 20, Other: n.resources(map[string]int64{
		"hugepages-2Mi": 1 << 21, "ephemeral-storage": 1 << 20, "example.com/disk": 1, "nvidia.com/mig-1g.5gb": 1,
	})}, "s")
	if err != nil {
		t.Fatal(err)
	}
	hidden := "kubernasium.io/" + n.hash("example.com/disk")
	of := func(l corev1.ResourceList) (all []string) {
		for name := range l {
			all = append(all, string(name))
		}
		slices.Sort(all)
		return all
	}
	r := pod.Spec.Containers[0].Resources
	for _, tc := range []struct {
		what string
		got  corev1.ResourceList
		want []string
	}{
		{"node", node.Status.Allocatable, []string{"attachable-volumes-csi-a", "cpu", "ephemeral-storage", "hugepages-2Mi", hidden, "memory", "nvidia.com/mig-1g.5gb", "pods"}},
		{"requests", r.Requests, []string{"cpu", "ephemeral-storage", "hugepages-2Mi", hidden, "memory", "nvidia.com/mig-1g.5gb"}},
		{"limits", r.Limits, []string{"hugepages-2Mi", hidden, "nvidia.com/mig-1g.5gb"}},
	} {
		if d := cmp.Diff(tc.want, of(tc.got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.what, d)
		}
	}
}

// TestReplayedOwners: pods have the same controller if they have the same owner in the same namespace.
func TestReplayedOwners(t *testing.T) {
	controller := func(namespace, owner string) types.UID {
		o, err := podObject("p", &clustertrace.Template{Namespace: namespace, Owner: owner}, "s")
		if err != nil {
			t.Fatal(err)
		}
		return metav1.GetControllerOf(o).UID
	}
	one := controller("", "ReplicaSet/a")
	if got := controller("default", "ReplicaSet/a"); got != one {
		t.Errorf("controllers %s and %s, want one", one, got)
	}
	for _, other := range [][2]string{{"", "ReplicaSet/b"}, {"", "Job/a"}, {"shop", "ReplicaSet/a"}} {
		if controller(other[0], other[1]) == one {
			t.Errorf("pods of %v have the controller of ReplicaSet/a in default", other)
		}
	}
}

// TestReplayedForScheduler: with a scheduler, a pod that ended without having run does not stay: it would be scheduled.
func TestReplayedForScheduler(t *testing.T) {
	const text = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"template","template":{"namespace":"ns","milli_cpu":500}}
{"k":"pod","name":"one"}
{"k":"finish","t":10,"phase":"Failed"}
{"k":"delete","t":10}
{"k":"end"}
`
	client := fake.NewClientset()
	report, err := Replay(t.Context(), client, envstest.TempFile(t, "ended.jsonl", text), ReplayOptions{Speed: 1, Scheduler: "default-scheduler"})
	if err != nil || report.Skipped > 0 || report.Deleted != 1 {
		t.Fatalf("%+v, %v, want one pod deleted, nothing skipped", report, err)
	}
	pods, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 0 {
		t.Errorf("%d pods are left, %v, want none", len(pods.Items), err)
	}
}

// TestReplayedNames: a pod of a StatefulSet has the name of the one that it replaces. With a scheduler that one is still
// there, since only its duration in the replay ends it.
func TestReplayedNames(t *testing.T) {
	const text = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"n","milli_cpu":4000,"memory_bytes":1073741824,"pods":10}}
{"k":"template","template":{"namespace":"ns","milli_cpu":500}}
{"k":"template","template":{"namespace":"ns","milli_cpu":700}}
{"k":"pod","name":"web-0"}
{"k":"bind"}
{"k":"run"}
{"k":"finish","t":10,"phase":"Succeeded"}
{"k":"delete","t":10}
{"k":"pod","t":10,"tpl":1,"name":"web-0"}
{"k":"end"}
`
	client := fake.NewClientset()
	report, err := Replay(t.Context(), client, envstest.TempFile(t, "names.jsonl", text), ReplayOptions{Speed: 1000, Scheduler: "default-scheduler"})
	if err != nil || report.Skipped > 0 || report.Pods != 2 {
		t.Fatalf("%+v, %v, want two pods, nothing skipped", report, err)
	}
	pod, err := client.CoreV1().Pods("ns").Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil || pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() != 700 {
		t.Errorf("web-0 is %+v, %v, want the second one, of 700 millicores", pod, err)
	}
}

// TestReplayedGatesAndPorts: with a scheduler, a pod waits for its gates as recorded; host ports restrict its nodes. Without
// one it has no gates, with which the API server would not let it be bound.
func TestReplayedGatesAndPorts(t *testing.T) {
	const text = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"template","template":{"namespace":"ns","milli_cpu":500,"host_ports":["TCP/:80","UDP/::1:53"],"scheduling_gates":["a","b"]}}
{"k":"template","template":{"namespace":"ns","milli_cpu":500,"host_ports":["TCP/:80","UDP/::1:53"],"scheduling_gates":["b"]}}
{"k":"template","template":{"namespace":"ns","milli_cpu":500,"host_ports":["TCP/:80","UDP/::1:53"]}}
{"k":"pod","name":"gated"}
{"k":"pod","name":"half"}
{"k":"pod","name":"open"}
{"k":"update_pod","p":1,"tpl":1}
{"k":"update_pod","p":2,"tpl":1}
{"k":"update_pod","p":2,"tpl":2}
{"k":"end"}
`
	path := envstest.TempFile(t, "gates.jsonl", text)
	for scheduler, want := range map[string]map[string][]string{
		"default-scheduler": {"gated": {"a", "b"}, "half": {"b"}, "open": nil},
		"":                  {"gated": nil, "half": nil, "open": nil},
	} {
		client := fake.NewClientset()
		report, err := Replay(t.Context(), client, path, ReplayOptions{Speed: 1, Scheduler: scheduler})
		if err != nil || report.Skipped > 0 {
			t.Fatalf("scheduler %q: %+v, %v, want nothing skipped", scheduler, report, err)
		}
		got := map[string][]string{}
		pods, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods.Items {
			var gates []string
			for _, g := range p.Spec.SchedulingGates {
				gates = append(gates, g.Name)
			}
			got[p.Name] = gates
			ports := []corev1.ContainerPort{
				{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}, {HostPort: 53, ContainerPort: 53, Protocol: corev1.ProtocolUDP, HostIP: "::1"},
			}
			if d := cmp.Diff(ports, p.Spec.Containers[0].Ports); d != "" {
				t.Errorf("scheduler %q: host ports of %s (-want +got):\n%s", scheduler, p.Name, d)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("scheduler %q: gates (-want +got):\n%s", scheduler, d)
		}
	}
}
