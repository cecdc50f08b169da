package trace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
