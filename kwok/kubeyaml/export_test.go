package kubeyaml

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadExport reads a file of the form that kube-scheduler-simulator exports: the pod that runs has 3 of
// the 4 CPUs of n2, so that the pending one, which wants 2, goes to n1.
func TestReadExport(t *testing.T) {
	o, err := Read("testdata/export.json")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"StorageClass": 1, "PriorityClass": 1, "Namespace": 1, "KubeSchedulerConfiguration": 1}
	if d := cmp.Diff(want, o.Ignored); d != "" || len(o.Nodes) != 2 || len(o.Pods) != 2 {
		t.Errorf("%d nodes, %d pods, want 2 and 2; ignored (-want +got):\n%s", len(o.Nodes), len(o.Pods), d)
	}
	r, err := simulate(t, read(t, "export.json"), "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Placements {
		if p.Pod == "default/pending" && p.Node == "n1" {
			return
		}
	}
	t.Errorf("placements %+v, want default/pending on n1", r.Placements)
}
