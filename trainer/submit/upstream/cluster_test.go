package upstream

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/stages"
	"github.com/kubernasium/kubernasium/trainer/submit"
)

const patience = 2 * time.Minute // of waits; they take some tenths of a second on an idle machine

// cluster is a control plane that admits restricted pods only, with a simulated node.
type cluster struct {
	rest *rest.Config
	kube kubernetes.Interface
	api  dynamic.Interface
}

func start(t *testing.T) *cluster {
	t.Helper()
	plane := kwoktest.Start(t, "--admission=PodSecurity,MutatingAdmissionWebhook,ValidatingAdmissionWebhook")
	c := &cluster{}
	var err error
	if c.rest, err = clientcmd.BuildConfigFromFlags("", plane.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	c.rest.QPS = -1
	if c.kube, err = kubernetes.NewForConfig(c.rest); err != nil {
		t.Fatal(err)
	}
	if c.api, err = dynamic.NewForConfig(c.rest); err != nil {
		t.Fatal(err)
	}
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}
	if _, err := c.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{stages.Node: "fake"}},
		Status:     corev1.NodeStatus{Allocatable: size, Capacity: size},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// namespace creates a namespace that admits restricted pods only.
func (c *cluster) namespace(t *testing.T) string {
	t.Helper()
	ns, err := c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "submit-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// volume creates a volume that the claim of a workload is bound to.
func (c *cluster) volume(t *testing.T) {
	t.Helper()
	if _, err := c.kube.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "volume-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// install creates the definitions of a module's files, and waits until the API server serves the definitions.
func (c *cluster) install(t *testing.T, module, pattern string) {
	t.Helper()
	for _, object := range files(t, module, pattern) {
		c.create(t, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, object)
		name := object.GetName()
		eventually(t, name+" is established", func() bool {
			live, err := c.api.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && condition(live, "Established")
		})
	}
}

func (c *cluster) create(t *testing.T, resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	t.Helper()
	if _, err := c.api.Resource(resource).Namespace(object.GetNamespace()).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// files returns the objects of files of a module.
func files(t *testing.T, module, pattern string) (all []*unstructured.Unstructured) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", module, err)
	}
	names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s of %s: %d files, %v", pattern, module, len(names), err)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for in := yaml.NewYAMLOrJSONDecoder(f, 1<<20); ; {
			object := &unstructured.Unstructured{}
			if in.Decode(&object.Object) != nil { // the end: upstream's files are YAML
				break
			}
			if object.Object != nil {
				all = append(all, object)
			}
		}
		f.Close()
	}
	return all
}

// condition reports whether an object has a condition.
func condition(o *unstructured.Unstructured, kind string) bool {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == kind && c["status"] == "True" {
			return true
		}
	}
	return false
}

// eventually waits until done reports true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// submit applies a workload, whose pods run until they are ended.
func (c *cluster) submit(t *testing.T, ns, file string) (*submit.Applied, []string, error) {
	t.Helper()
	to, err := submit.NewCluster(c.rest, ns)
	if err != nil {
		t.Fatal(err)
	}
	w := read(t, file)
	notes, err := to.Complete(t.Context(), w)
	if err != nil {
		return nil, notes, err
	}
	m, err := submit.Build(w, training)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]string{stages.Duration: "24h"} // of simulated pods
	if m.Job != nil {
		m.Job.Spec.Template.Annotations = runs
	} else {
		for i := range m.JobSet.Spec.ReplicatedJobs {
			m.JobSet.Spec.ReplicatedJobs[i].Template.Spec.Template.Annotations = runs
		}
	}
	applied, err := to.Apply(t.Context(), w, m)
	return applied, notes, err
}

func (c *cluster) mustSubmit(t *testing.T, ns, file string) (*submit.Applied, []string) {
	t.Helper()
	applied, notes, err := c.submit(t, ns, file)
	if err != nil {
		t.Fatal(err)
	}
	return applied, notes
}

// pods returns the pods of a role that are neither ended nor about to be deleted.
func (c *cluster) pods(t *testing.T, ns, role string) (running []corev1.Pod) {
	t.Helper()
	list, err := c.kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + role})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			running = append(running, p)
		}
	}
	return running
}

// run waits until n pods of a role run, and returns them.
func (c *cluster) run(t *testing.T, ns, role string, n int) (running []corev1.Pod) {
	t.Helper()
	eventually(t, role+" runs", func() bool { running = c.pods(t, ns, role); return len(running) == n })
	return running
}

// replaced waits until a pod runs in the place of another.
func (c *cluster) replaced(t *testing.T, ns, role string, was types.UID) (now corev1.Pod) {
	t.Helper()
	eventually(t, role+" is replaced", func() bool {
		all := c.pods(t, ns, role)
		for _, p := range all {
			if p.UID == was {
				return false
			}
		}
		if len(all) > 0 {
			now = all[0]
		}
		return len(all) > 0
	})
	return now
}

// fail ends a pod with a failure as a kubelet does, because of an eviction or of itself.
func (c *cluster) fail(t *testing.T, p corev1.Pod, evicted bool) {
	t.Helper()
	p.Status.Phase = corev1.PodFailed
	if evicted {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
	}
	if _, err := c.kube.CoreV1().Pods(p.Namespace).UpdateStatus(t.Context(), &p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// succeed lets a pod end with status 0.
func (c *cluster) succeed(t *testing.T, p corev1.Pod) {
	t.Helper()
	patch := `{"metadata": {"annotations": {"` + stages.Duration + `": "1ms"}}}`
	if _, err := c.kube.CoreV1().Pods(p.Namespace).Patch(t.Context(), p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// endDeleted does what a kubelet does with pods that are to be deleted, and KWOK's stage does not: it ends them.
func (c *cluster) endDeleted(ctx context.Context, ns string) {
	for ctx.Err() == nil {
		list, err := c.kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err == nil {
			for _, p := range list.Items {
				if p.DeletionTimestamp != nil && p.Status.Phase == corev1.PodRunning {
					p.Status.Phase = corev1.PodFailed
					_, _ = c.kube.CoreV1().Pods(ns).UpdateStatus(ctx, &p, metav1.UpdateOptions{}) // it may be gone, or is tried again
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func gone(err error) bool { return apierrors.IsNotFound(err) }
