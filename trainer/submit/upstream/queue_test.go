package upstream

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/kubernasium/kubernasium/trainer/submit"
)

// queue creates a LocalQueue of Kueue's type.
func (c *cluster) queue(t *testing.T, ns, name string) {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&kueue.LocalQueue{
		TypeMeta: metav1.TypeMeta{APIVersion: kueue.GroupVersion.String(), Kind: "LocalQueue"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns},
		Spec: kueue.LocalQueueSpec{ClusterQueue: "all"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.create(t, schema.GroupVersionResource{Group: kueue.GroupVersion.Group, Version: kueue.GroupVersion.Version, Resource: "localqueues"}, &unstructured.Unstructured{Object: object})
}

// suspend does what Kueue does to start a workload, or to preempt it.
func (c *cluster) suspend(t *testing.T, ns string, yes bool) {
	t.Helper()
	patch := map[bool]string{true: `{"spec": {"suspend": true}}`, false: `{"spec": {"suspend": false}}`}[yes]
	if _, err := c.api.Resource(jobSets).Namespace(ns).Patch(t.Context(), "one", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// testQueue: a workload waits, suspended, in the queue that it names or that the namespace has. It runs when Kueue starts
// it, also if it is applied again; a preempted one ends its pods, and they run again later.
func testQueue(t *testing.T, c *cluster) {
	c.volume(t)
	c.volume(t)
	ns := c.namespace(t)
	if _, notes := c.mustSubmit(t, ns, "name: free"); !strings.Contains(strings.Join(notes, "\n"), "has no LocalQueue") {
		t.Errorf("notes %q without a queue, want that there is none", notes)
	}
	c.queue(t, ns, "mine")
	if _, _, err := c.submit(t, ns, "queue: yours"); !errors.Is(err, submit.ErrQueue) || !strings.Contains(err.Error(), "which has mine") {
		t.Errorf("a queue that is not there: %v, want ErrQueue with those that are", err)
	}
	const file = "name: one\n"
	if applied, _ := c.mustSubmit(t, ns, file); applied.Queue != "mine" || applied.State != "Suspended" || c.set(t, ns).GetLabels()[submit.QueueLabel] != "mine" {
		t.Errorf("%+v, labels %v; want it suspended in the only queue", applied, c.set(t, ns).GetLabels())
	}
	eventually(t, "the JobSet is suspended", func() bool { return condition(c.set(t, ns), "Suspended") })
	if running := c.pods(t, ns, "server"); len(running) != 1 { // of workload free
		t.Errorf("%d servers run, want those of the workload that is not queued", len(running))
	}
	c.suspend(t, ns, false)
	c.run(t, ns, "learner", 2)
	if applied, _ := c.mustSubmit(t, ns, file); applied.State != "Running" {
		t.Errorf("applied again: %+v, want that it runs", applied)
	}
	go c.endDeleted(t.Context(), ns)
	c.suspend(t, ns, true)
	c.run(t, ns, "learner", 1)
	c.suspend(t, ns, false)
	c.run(t, ns, "learner", 2)
	c.queue(t, ns, "other")
	if _, _, err := c.submit(t, ns, "name: two"); !errors.Is(err, submit.ErrQueue) || !strings.Contains(err.Error(), "mine, other: name one") {
		t.Errorf("two queues and none named: %v, want ErrQueue with both", err)
	}
	c.queue(t, ns, "default")
	if applied, _ := c.mustSubmit(t, ns, "name: two"); applied.Queue != "default" {
		t.Errorf("%+v, want queue default", applied)
	}
}
