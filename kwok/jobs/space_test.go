package jobs

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

func TestMain(m *testing.M) { os.Exit(kwoktest.Main(m)) }

var ctx = context.Background()

func open(t *testing.T, namespace string) *Space {
	t.Helper()
	s, err := Open(ctx, kwok.Options{Kubeconfig: kwoktest.Shared(t).Kubeconfig}, "jobs-", namespace)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeSpace(t *testing.T, s *Space) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// job returns one of n pods that want CPU, on a node of the space, and succeed after a duration.
func job(s *Space, name, node, duration, cpu string, n int32) *batchv1.Job {
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
		Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}}}
	s.Place(&spec, node)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": name}},
		Spec: batchv1.JobSpec{Parallelism: &n, Completions: &n, BackoffLimit: new(int32), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{stages.Duration: duration}}, Spec: spec,
		}},
	}
}

// TestLife: a Job runs, is complete, is deleted with its pods; then the namespace and the node go.
func TestLife(t *testing.T) {
	s := open(t, "")
	node := s.Namespace()
	if err := s.AddNode(ctx, node, cluster.Resources{MilliCPU: 4000, MemoryBytes: 1 << 30}, 10); err != nil {
		t.Fatal(err)
	}
	if err := s.AddNode(ctx, node, cluster.Resources{MilliCPU: 4000, MemoryBytes: 1 << 30}, 10); err != nil {
		t.Errorf("the same node again: %v", err)
	}
	for _, j := range []*batchv1.Job{job(s, "short", node, "1s", "1", 2), job(s, "long", node, Hold, "1", 1)} {
		if err := s.Create(ctx, j); err != nil {
			t.Fatal(err)
		}
	}
	running, err := s.Running(ctx, "long")
	if err != nil || len(running["long"]) != 1 || running["long"][0].Spec.NodeName != node {
		t.Fatalf("Running = %v, %v; want one pod on %s", running, err, node)
	}
	if err := s.Complete(ctx, "short"); err != nil {
		t.Fatal(err)
	}
	if n := s.Job("short").Status.Succeeded; n != 2 {
		t.Errorf("%d completions, want 2", n)
	}
	if names := s.Names("test"); len(names) != 2 || len(s.Names("other")) > 0 {
		t.Errorf("Names = %v, want both Jobs", names)
	}
	if err := errors.Join(s.Delete(ctx, "short", "long", "none"), s.Gone(ctx, "short", "long", "none")); err != nil {
		t.Fatal(err)
	}
	if s.Job("long") != nil || len(s.Pods("short")) > 0 {
		t.Error("Jobs or pods are there after Gone")
	}
	if err := s.Complete(ctx, "long"); err == nil || !strings.Contains(err.Error(), "was deleted before") {
		t.Errorf("Complete of a deleted Job: %v", err)
	}
	closeSpace(t, s)
	again := open(t, node) // waits until the namespace is gone, and makes it again
	if len(again.Names("test")) > 0 {
		t.Error("the new namespace has Jobs")
	}
	closeSpace(t, again)
	if _, err := again.Client().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); err == nil {
		t.Error("the node is left")
	}
}

// TestWaitsEnd: waits for what does not come end, and say what is missing.
func TestWaitsEnd(t *testing.T) {
	s := open(t, "")
	defer closeSpace(t, s)
	node := s.Namespace()
	if err := s.AddNode(ctx, node, cluster.Resources{MilliCPU: 1000, MemoryBytes: 1 << 30}, 10); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(ctx, job(s, "large", node, Hold, "2", 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(ctx, func() (string, error) {
		for _, p := range s.Pods("large") {
			if strings.Contains(waiting(p), "Insufficient cpu") {
				return "", nil
			}
		}
		return "no pod of job large that the scheduler has looked at", nil
	}); err != nil {
		t.Fatal(err)
	}
	s.Patience = 100 * time.Millisecond
	_, err := s.Running(ctx, "large")
	if !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "0 of the 1 pods of job large run") || !strings.Contains(err.Error(), "Insufficient cpu") {
		t.Errorf("Running of what has no room: %v, want %v and why", err, ErrTimeout)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := s.Gone(short, "large"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "job large is still there") {
		t.Errorf("Gone of what is there: %v, want %v", err, context.DeadlineExceeded)
	}
	late := job(s, "late", node, Hold, "500m", 1)
	late.Spec.ActiveDeadlineSeconds = new(int64(1))
	if err := s.Create(ctx, late); err != nil {
		t.Fatal(err)
	}
	s.Patience = time.Minute
	if err := s.Wait(ctx, func() (string, error) { // Complete takes a Job that is not seen for deleted
		if s.Job("late") == nil {
			return "job late is not seen", nil
		}
		return "", nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(ctx, "late"); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "DeadlineExceeded") {
		t.Errorf("Complete of a Job past its deadline: %v, want %v and why", err, ErrFailed)
	}
}

// TestForeign: what others have made is neither taken nor deleted.
func TestForeign(t *testing.T) {
	s := open(t, "")
	defer closeSpace(t, s)
	made, err := s.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	theirs := made.Name
	if err := s.AddNode(ctx, "node-of-one", cluster.Resources{MilliCPU: 1000}, 10); err != nil {
		t.Fatal(err)
	}
	other := open(t, theirs)
	if err := other.AddNode(ctx, "node-of-one", cluster.Resources{MilliCPU: 1000}, 10); err == nil || !strings.Contains(err.Error(), "another node of that name") {
		t.Errorf("AddNode of another's node: %v", err)
	}
	closeSpace(t, other)
	ns, err := s.Client().CoreV1().Namespaces().Get(ctx, theirs, metav1.GetOptions{})
	if err != nil || ns.DeletionTimestamp != nil {
		t.Errorf("their namespace: %v, %v; want that it stays", ns.DeletionTimestamp, err)
	}
	if _, err := s.Client().CoreV1().Nodes().Get(ctx, "node-of-one", metav1.GetOptions{}); err != nil {
		t.Errorf("the other's node: %v", err)
	}
}

// TestCallAgain: what the API server cannot do now is asked again, and what it refuses is not.
func TestCallAgain(t *testing.T) {
	busy := apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	there := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "jobs"}, "j")
	for _, tc := range []struct {
		name    string
		replies []error
		want    error
	}{
		{"at once", []error{nil}, nil},
		{"busy twice", []error{busy, busy, nil}, nil},
		{"refused", []error{there}, there},
		{"busy, then refused", []error{busy, there}, there},
		{"no API server", []error{io.ErrUnexpectedEOF}, io.ErrUnexpectedEOF},
	} {
		calls := 0
		err := call(ctx, "do", func(_ context.Context, again bool) error {
			if again != (calls > 0) {
				t.Errorf("%s: call %d is told again = %v", tc.name, calls, again)
			}
			calls++
			return tc.replies[calls-1]
		})
		if !errors.Is(err, tc.want) || calls != len(tc.replies) {
			t.Errorf("%s: %v after %d calls, want %v after %d", tc.name, err, calls, tc.want, len(tc.replies))
		}
	}
	// A call that is cancelled gets its reply, but makes no other.
	cancelled, cancel := context.WithCancel(ctx)
	calls := 0
	err := call(cancelled, "do", func(asking context.Context, _ bool) error {
		calls++
		cancel()
		return errors.Join(asking.Err(), busy)
	})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("a cancelled call: %v after %d calls, want %v after 1", err, calls, context.Canceled)
	}
	if err := call(cancelled, "do", func(context.Context, bool) error { calls++; return nil }); !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("a call that comes too late: %v, %d calls; want %v and none", err, calls-1, context.Canceled)
	}
}

// TestOpenCancelled: a namespace that Open has made does not stay when the caller's time is over before its Jobs
// are listed.
func TestOpenCancelled(t *testing.T) {
	plane := kwoktest.Shared(t)
	client, err := kwok.Connect(ctx, kwok.Options{Kubeconfig: plane.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		made, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{LabelSelector: LabelSpace})
		if err != nil {
			t.Fatal(err)
		}
		opening, cancel := context.WithCancel(ctx)
		name := make(chan string, 1)
		go func() {
			for e := range made.ResultChan() {
				if ns, ok := e.Object.(*corev1.Namespace); ok && strings.HasPrefix(ns.Name, "cancelled-") && ns.DeletionTimestamp == nil {
					cancel()
					name <- ns.Name
					return
				}
			}
		}()
		s, err := Open(opening, kwok.Options{Kubeconfig: plane.Kubeconfig}, "cancelled-", "")
		namespace := <-name
		made.Stop()
		if err == nil { // it was quicker
			closeSpace(t, s)
			continue
		}
		ns, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) && (err != nil || ns.DeletionTimestamp == nil) {
			t.Errorf("namespace %s after a cancelled Open: %v, want it gone or going", namespace, err)
		}
		return
	}
	t.Error("Open was always quicker than its context's end")
}
