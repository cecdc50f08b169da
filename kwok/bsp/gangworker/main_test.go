package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/bsp"
	"github.com/kubernasium/kubernasium/kwok/bsp/zkbarrier"
	"github.com/kubernasium/kubernasium/kwok/bsp/zkbarrier/zktest"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

// TestWorkers executes supersteps of workers with the rights of the manifests, on a control plane that authorizes by
// roles. KWOK runs the pods, and the test does what kubelet would: it runs the program of each, and ends the pod.
func TestWorkers(t *testing.T) {
	t.Run("annotations", func(t *testing.T) { testWorkers(t, nil) })
	t.Run("ZooKeeper", func(t *testing.T) { testWorkers(t, []string{zktest.Start(t)}) })
}

func testWorkers(t *testing.T, servers []string) {
	plane := kwoktest.Start(t, "--authorization=rbac")
	admin, err := kwok.Connect(t.Context(), kwok.Options{Kubeconfig: plane.Kubeconfig, AllowRealNodes: true})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, admin, "manifests/rights.yaml")
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("20")}
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker", Annotations: map[string]string{stages.Node: "fake"}},
		Status:     corev1.NodeStatus{Allocatable: amounts, Capacity: amounts},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Setenv(kwok.KubeconfigVariable, as(t, plane.Kubeconfig, "gang-worker"))
	k := &kubelet{t: t, admin: admin, dir: t.TempDir(), live: servers != nil}
	k.start()
	conf := bsp.KubernetesConfig{
		Server: kwok.Options{Kubeconfig: as(t, plane.Kubeconfig, "gang-runner"), AllowRealNodes: true}, Namespace: "gang",
		Image: "gangworker", ServiceAccount: "gang-worker",
	}
	if servers != nil {
		conf.Barrier = func(name string, tasks []string) (bsp.Barrier, []string, error) {
			b, err := zkbarrier.Open(servers, "/"+name, tasks)
			return b, []string{"--zookeeper", servers[0], "--barrier", "/" + name}, err
		}
	}
	e, err := bsp.OpenKubernetes(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	if e.MostMilliCPU() != 8000 {
		t.Errorf("%d millicores, want those of the node, 8000", e.MostMilliCPU())
	}
	crew, err := e.Start(t.Context(), bsp.Job{
		Works: []bsp.Work{{Task: "memcpy", Ops: 9}, {Task: "zero", Ops: 3}}, MilliCPU: []int64{1000, 2000}, Method: bsp.Resize, Limit: 2 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, sizes := range [][]float64{{2, 1}, {4, 10}} {
		if i == 1 {
			if err := crew.Replan(t.Context(), []int64{1500, 500}); err != nil {
				t.Fatal(err)
			}
		}
		if d, err := crew.Superstep(t.Context(), sizes); err != nil || len(d) != 2 {
			t.Fatalf("superstep %d: %v, %v", i, d, err)
		}
	}
	if err := crew.Close(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	// Operations are size times those for size 1.
	var got []string
	for _, line := range k.stop() {
		words := strings.Fields(line)
		got = append(got, strings.Join(words[len(words)-2:], " "))
	}
	slices.Sort(got)
	if want := []string{"--memcpy-ops 18", "--memcpy-ops 36", "--zero-ops 3", "--zero-ops 30"}; !slices.Equal(got, want) {
		t.Errorf("the workers ran stress-ng with %q, want %q", got, want)
	}
}

// kubelet runs the program of each pod that KWOK runs.
type kubelet struct {
	t      *testing.T
	admin  kubernetes.Interface
	dir    string
	live   bool // workers live through all supersteps, and leave no message
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

func (k *kubelet) start() {
	// In place of stress-ng: it notes its arguments.
	if err := os.WriteFile(filepath.Join(k.dir, "stress-ng"), []byte("#!/bin/sh\necho \"$@\" >> "+filepath.Join(k.dir, "notes")+"\n"), 0o700); err != nil {
		k.t.Fatal(err)
	}
	var ctx context.Context
	ctx, k.cancel = context.WithCancel(k.t.Context())
	k.wait.Go(func() {
		seen := map[string]bool{}
		for ctx.Err() == nil {
			pods, err := k.admin.CoreV1().Pods("gang").List(ctx, metav1.ListOptions{})
			if err != nil {
				return
			}
			for _, p := range pods.Items {
				if p.Status.Phase == corev1.PodRunning && !seen[p.Name] {
					seen[p.Name] = true
					k.wait.Go(func() { k.run(ctx, p) })
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

func (k *kubelet) run(ctx context.Context, p corev1.Pod) {
	c := p.Spec.Containers[0]
	if p.Spec.ServiceAccountName != "gang-worker" || c.Image != "gangworker" || len(c.Env) != 2 {
		k.t.Errorf("pod %+v, want a worker", p.Spec)
	}
	message := filepath.Join(k.dir, p.Name)
	env := map[string]string{"POD_NAME": p.Name, "POD_NAMESPACE": p.Namespace}
	err := run(ctx, append(slices.Clone(c.Args), "--message", message, "--stress-ng", filepath.Join(k.dir, "stress-ng")), func(name string) string { return env[name] })
	if ctx.Err() != nil {
		return // the last superstep's, which the end has overtaken
	}
	text, reading := os.ReadFile(message)
	if k.live && err == nil {
		text, reading = []byte(`{"seconds":`), nil
	}
	if err != nil || reading != nil || !bytes.HasPrefix(text, []byte(`{"seconds":`)) {
		k.t.Errorf("worker of pod %s: %v; message %q, %v", p.Name, err, text, reading)
	}
	if k.live {
		return // its Job is being deleted
	}
	end := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0s"}}}`, stages.Duration)
	if _, err := k.admin.CoreV1().Pods("gang").Patch(ctx, p.Name, types.StrategicMergePatchType, end, metav1.PatchOptions{}); err != nil {
		k.t.Error(err)
	}
}

// stop returns the arguments with which stress-ng ran.
func (k *kubelet) stop() []string {
	k.cancel()
	k.wait.Wait()
	text, err := os.ReadFile(filepath.Join(k.dir, "notes"))
	if err != nil {
		k.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// as writes a kubeconfig that acts as a service account of namespace gang.
func as(t *testing.T, kubeconfig, account string) string {
	t.Helper()
	c, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range c.AuthInfos {
		user.Impersonate = "system:serviceaccount:gang:" + account
	}
	path := filepath.Join(t.TempDir(), account)
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// apply creates the objects of a file.
func apply(t *testing.T, client kubernetes.Interface, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, opts := t.Context(), metav1.CreateOptions{}
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		read := func(object any) {
			if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
				t.Fatalf("%s: %v", doc, err)
			}
		}
		switch kind.Kind {
		case "Namespace":
			o := &corev1.Namespace{}
			read(o)
			_, err = client.CoreV1().Namespaces().Create(ctx, o, opts)
		case "ServiceAccount":
			o := &corev1.ServiceAccount{}
			read(o)
			_, err = client.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, opts)
		case "Role":
			o := &rbacv1.Role{}
			read(o)
			_, err = client.RbacV1().Roles(o.Namespace).Create(ctx, o, opts)
		case "RoleBinding":
			o := &rbacv1.RoleBinding{}
			read(o)
			_, err = client.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, opts)
		case "ClusterRole":
			o := &rbacv1.ClusterRole{}
			read(o)
			_, err = client.RbacV1().ClusterRoles().Create(ctx, o, opts)
		case "ClusterRoleBinding":
			o := &rbacv1.ClusterRoleBinding{}
			read(o)
			_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, o, opts)
		case "PersistentVolumeClaim":
			o := &corev1.PersistentVolumeClaim{}
			read(o)
			_, err = client.CoreV1().PersistentVolumeClaims(o.Namespace).Create(ctx, o, opts)
		default:
			t.Fatalf("%s: kind %q, want one that this test creates", path, kind.Kind)
		}
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"extra"}, "extra"}, {nil, "want a stressor"}, {[]string{"--work", "cap:1", "--zookeeper", "x:2181"}, "both of --zookeeper and --barrier"}, {[]string{"--work", "cap:0"}, "above 0"},
	} {
		if err := run(t.Context(), tc.args, os.Getenv); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
	if _, err := released(t.Context(), nil, "gang", ""); err == nil || !strings.Contains(err.Error(), "POD_NAME") {
		t.Errorf("without the pod's name: %v", err)
	}
	if _, err := opsOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{bsp.AnnotationOps: "none"}}}); err == nil {
		t.Error("operations that are no number: no error")
	}
}
