package vpa

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsfake "k8s.io/metrics/pkg/client/clientset/versioned/fake"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/lease"
)

// fakeWorld is a recommender of upstream's algorithm on fake clients, with a Deployment app and its pods a and b.
type fakeWorld struct {
	*Recommender
	client  *fake.Clientset
	sampled map[string]time.Time // times of the pods' samples
}

func newFakeWorld(t *testing.T, checkpointed bool) *fakeWorld {
	t.Helper()
	labels := map[string]string{"app": "app"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amounts(cluster.Resources{MilliCPU: 100, MemoryBytes: 1 << 20})}}}}
	objects := []runtime.Object{&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "app"},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}},
	}}
	w := &fakeWorld{sampled: map[string]time.Time{}}
	for _, name := range []string{"a", "b"} {
		objects = append(objects, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: labels}, Spec: spec, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	w.client = fake.NewClientset(objects...)
	scales := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": GroupVersion.String(), "kind": "VerticalPodAutoscaler", "metadata": map[string]any{"namespace": "shop", "name": "app", "uid": "1"},
		"spec": map[string]any{"targetRef": map[string]any{"kind": "Deployment", "name": "app"}},
	}}
	api := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		autoscalers: "VerticalPodAutoscalerList", checkpoints: "VerticalPodAutoscalerCheckpointList",
	}, scales)
	usage := metricsfake.NewSimpleClientset()
	usage.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &v1beta1.PodMetricsList{}
		for name, at := range w.sampled {
			list.Items = append(list.Items, v1beta1.PodMetrics{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}, Timestamp: metav1.NewTime(at),
				Containers: []v1beta1.ContainerMetrics{{Name: "main", Usage: corev1.ResourceList{
					corev1.ResourceCPU: *resource.NewMilliQuantity(50, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(1<<20, resource.BinarySI),
				}}},
			})
		}
		return true, list, nil
	})
	s, err := envs.Lookup("k8s/VerticalPodAutoscaler-v0")
	if err != nil {
		t.Fatal(err)
	}
	open, err := OpenBaseline(s, nil, "upstream")
	if err != nil {
		t.Fatal(err)
	}
	w.Recommender = &Recommender{
		config: Config{Name: DefaultRecommender, Open: open, Checkpoints: checkpointed}, client: w.client, api: api, metrics: usage.MetricsV1beta1(),
		log: slog.New(slog.DiscardHandler), known: map[string]*autoscaler{}, loop: loop{watchdog: lease.NewWatchdog()},
	}
	return w
}

// storedSamples returns the number of samples in the checkpoint of the autoscaler.
func (w *fakeWorld) storedSamples(t *testing.T) int64 {
	t.Helper()
	o, err := w.api.Resource(checkpoints).Namespace("shop").Get(t.Context(), "app-main", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n, _, _ := unstructured.NestedInt64(o.Object, "status", "totalSamplesCount")
	return n
}

// TestSamplesOfUnlikeClocks: each new sample of a pod counts, also if a node's clock is behind that of another node by more than
// the interval, and no sample counts twice.
func TestSamplesOfUnlikeClocks(t *testing.T) {
	w := newFakeWorld(t, true)
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		a, b time.Duration // since start
		want int64         // samples so far, counted by hand
	}{
		{10 * time.Minute, 0, 2},
		{11 * time.Minute, time.Minute, 4},
		{11 * time.Minute, 2 * time.Minute, 5},
		{11 * time.Minute, 2 * time.Minute, 5},
		{12 * time.Minute, 2 * time.Minute, 6},
	} {
		w.sampled["a"], w.sampled["b"] = start.Add(step.a), start.Add(step.b)
		if _, err := w.Step(t.Context()); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got := w.storedSamples(t); got != step.want {
			t.Errorf("step %d: %d samples, want %d", i, got, step.want)
		}
	}
}

// TestContainerWithoutMetrics: metrics that leave out a container of a pod are no sample of it.
func TestContainerWithoutMetrics(t *testing.T) {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "helper"}}}}
	used := map[string]sample{"a": {fresh: true, containers: map[string]cluster.Resources{"main": {MilliCPU: 5, MemoryBytes: 7}}}}
	for name, want := range map[string]bool{"main": true, "helper": false} {
		if got := livePods([]corev1.Pod{pod}, name, used)[0]; got.Sampled != want {
			t.Errorf("container %s: sampled %v, want %v", name, got.Sampled, want)
		}
	}
}

// TestCheckpointOfAnother: two autoscalers can have checkpoints of one name, as a with container b-c and a-b with container c. An
// autoscaler neither resumes from the other's nor replaces it.
func TestCheckpointOfAnother(t *testing.T) {
	w := newFakeWorld(t, true)
	foreign := newCheckpoint(&Autoscaler{ObjectMeta: metav1.ObjectMeta{Name: "ap", UID: "2"}}, "p-main")
	foreign.SetName("app-main")
	status := map[string]any{"version": "v3", "totalSamplesCount": int64(1000)}
	foreign.Object["status"] = status
	if _, err := w.api.Resource(checkpoints).Namespace("shop").Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	w.sampled["a"], w.sampled["b"] = now, now
	report, err := w.Step(t.Context())
	if report.Written != 1 || err == nil || !strings.Contains(err.Error(), "app-main") {
		t.Errorf("%+v, %v, want a recommendation, and an error that names the checkpoint", report, err)
	}
	if got := w.storedSamples(t); got != 1000 {
		t.Errorf("the other's checkpoint has %d samples, want 1000 as before", got)
	}
}

// TestLeadResumes: an instance that leads again resumes from the checkpoint, which another leader may have replaced
// meanwhile, and does not overwrite it by what it knew before.
func TestLeadResumes(t *testing.T) {
	w := newFakeWorld(t, true)
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	w.sampled["a"], w.sampled["b"] = start, start
	samples := func() int64 {
		o, err := w.api.Resource(checkpoints).Namespace("shop").Get(t.Context(), "app-main", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n, _, _ := unstructured.NestedInt64(o.Object, "status", "totalSamplesCount")
		return n
	}
	lead := func() {
		ctx, cancel := context.WithCancel(t.Context())
		l := lease.Lease{Identity: "one", Duration: time.Hour, Renew: time.Minute, Retry: 10 * time.Millisecond}
		if err := w.Lead(ctx, l, time.Hour, func(Report) { cancel() }); err != nil {
			t.Fatal(err)
		}
	}
	lead()
	if got := samples(); got != 2 {
		t.Fatalf("the first leader stores %d samples, want 2", got)
	}
	other := newFakeWorld(t, true)
	other.api, other.sampled["a"], other.sampled["b"] = w.api, start.Add(time.Minute), start.Add(time.Minute)
	if _, err := other.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := samples(); got != 4 {
		t.Fatalf("the second leader stores %d samples, want 4", got)
	}
	w.sampled["a"], w.sampled["b"] = start.Add(2*time.Minute), start.Add(2*time.Minute)
	lead()
	if got := samples(); got != 6 {
		t.Errorf("the first leader stores %d samples when it leads again, want 6", got)
	}
}
