package plane

import (
	"context"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/apis/core"
)

// watched is a storage whose watch plays events.
type watched struct {
	storage.Interface
	events []watch.Event
}

func (s watched) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	w := watch.NewFakeWithChanSize(len(s.events), false)
	for _, e := range s.events {
		w.Action(e.Type, e.Object)
	}
	return w, nil
}

// version returns a pod, decoded again.
func version(change func(*core.Pod)) *core.Pod {
	p := &core.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", UID: "1", Labels: map[string]string{"app": "web"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "a", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}},
		},
		Spec: core.PodSpec{Containers: []core.Container{{Name: "main", Image: "one"}}, Tolerations: []core.Toleration{{Key: "k"}}},
	}
	change(p)
	return p
}

func TestSharingStorage(t *testing.T) {
	versions := []func(*core.Pod){
		func(*core.Pod) {},
		func(p *core.Pod) {
			p.Spec.NodeName = "node"
			p.ManagedFields = append([]metav1.ManagedFieldsEntry{{Manager: "b", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{}`)}}}, p.ManagedFields...)
		},
		func(p *core.Pod) { p.Spec.Containers[0].Image, p.Labels = "two", nil },
		func(p *core.Pod) { p.UID = "2" }, // another pod of that name
	}
	s := watched{events: []watch.Event{{Type: watch.Bookmark, Object: version(func(*core.Pod) {})}}}
	for _, change := range versions {
		s.events = append(s.events, watch.Event{Type: watch.Modified, Object: version(change)})
	}
	s.events = append(s.events, watch.Event{Type: watch.Deleted, Object: version(versions[2])})
	s.events = append(s.events, watch.Event{Type: watch.Added, Object: version(versions[2])})

	w, err := sharingStorage{s}.Watch(t.Context(), "", storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var got []*core.Pod
	for i, want := range s.events {
		e := <-w.ResultChan()
		if e.Type != want.Type {
			t.Fatalf("event %d is %s, want %s", i, e.Type, want.Type)
		}
		got = append(got, e.Object.(*core.Pod))
	}
	got = got[1:] // without the bookmark
	for i, change := range append(versions, versions[2], versions[2]) {
		if want := version(change); !reflect.DeepEqual(got[i], want) {
			t.Errorf("version %d is changed:\n%+v\nwant\n%+v", i, got[i], want)
		}
	}
	containers := func(i int) *core.Container { return &got[i].Spec.Containers[0] }
	for _, c := range []struct {
		what      string
		got, want any
		shared    bool
	}{
		{"containers of a version that changes others", containers(1), containers(0), true},
		{"an entry of managed fields that has moved", got[1].ManagedFields[1].FieldsV1, got[0].ManagedFields[0].FieldsV1, true},
		{"containers that have changed", containers(2), containers(1), false},
		{"tolerations beside them", &got[2].Spec.Tolerations[0], &got[0].Spec.Tolerations[0], true},
		{"containers of another pod", containers(3), containers(2), false},
		{"containers of the version that is deleted", containers(4), containers(2), true},
		{"containers after the deletion", containers(5), containers(4), false},
	} {
		if (c.got == c.want) != c.shared {
			t.Errorf("%s: shared %v, want %v", c.what, !c.shared, c.shared)
		}
	}
}
