package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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
	t.Run("annotations", func(t *testing.T) { testWorkers(t, nil, "") })
	t.Run("ZooKeeper", func(t *testing.T) { testWorkers(t, []string{zktest.Start(t)}, "") })
}

const (
	engineEnv   = "KUBERNASIUM_ENGINE"   // command of a container engine, such as docker
	registryEnv = "KUBERNASIUM_REGISTRY" // of the worker's image
)

// TestWorkersImage executes supersteps of real work: each pod's program runs in its image, with stress-ng.
func TestWorkersImage(t *testing.T) {
	engine := os.Getenv(engineEnv)
	if engine == "" {
		t.Skipf("needs a container engine: `make test-images` builds the image and runs this; or set %s and %s", engineEnv, registryEnv)
	}
	testWorkers(t, nil, engine)
}

func testWorkers(t *testing.T, servers []string, engine string) {
	plane := kwoktest.Start(t, "--authorization=rbac", "--admission=PodSecurity") // the namespace admits restricted pods only
	admin, err := kwok.Connect(t.Context(), kwok.Options{Kubeconfig: plane.Kubeconfig, AllowRealNodes: true})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, admin, "manifests/rights.yaml")
	wantAdmitted(t, admin, "manifests/profile.yaml", "manifests/run.yaml")
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("20")}
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker", Annotations: map[string]string{stages.Node: "fake"}},
		Status:     corev1.NodeStatus{Allocatable: amounts, Capacity: amounts},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := as(t, plane.Kubeconfig, "gang-worker")
	t.Setenv(kwok.KubeconfigVariable, account)
	k := &kubelet{t: t, admin: admin, dir: t.TempDir(), live: servers != nil, image: "gangworker", engine: engine, account: account}
	if engine != "" {
		k.image = os.Getenv(registryEnv) + "/kubernasium/gangworker:0.1.0"
	}
	k.start()
	conf := bsp.KubernetesConfig{
		Server: kwok.Options{Kubeconfig: as(t, plane.Kubeconfig, "gang-runner"), AllowRealNodes: true}, Namespace: "gang",
		Image: k.image, ServiceAccount: "gang-worker",
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
	if e.MaxMilliCPU() != 8000 {
		t.Errorf("%d millicores, want those of the node, 8000", e.MaxMilliCPU())
	}
	limit := 2 * time.Minute
	if engine != "" {
		limit = 10 * time.Minute // the storage driver vfs copies the image's 200 MB for each container: 30 s on a busy disk
	}
	crew, err := e.Start(t.Context(), bsp.Job{
		Works: []bsp.Work{{Task: "memcpy", Ops: 9}, {Task: "zero", Ops: 3}}, MilliCPU: []int64{1000, 2000}, Method: bsp.Resize, Limit: limit,
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
		d, err := crew.Superstep(t.Context(), sizes)
		if err != nil || len(d) != 2 || slices.Min(d) <= 0 {
			t.Fatalf("superstep %d: %v, %v", i, d, err)
		}
		t.Logf("superstep %d of sizes %v took %v", i, sizes, d)
	}
	if err := crew.Close(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if engine != "" {
		k.stop()
		return
	}
	// Operations are size times those for size 1.
	var got []string
	k.stop()
	for _, line := range k.notes() {
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

	image   string
	engine  string // runs the image; "" runs the program in this process
	account string // kubeconfig
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
	if p.Spec.ServiceAccountName != "gang-worker" || c.Image != k.image || len(c.Env) != 2 || !*c.SecurityContext.ReadOnlyRootFilesystem || c.VolumeMounts[0].MountPath != "/tmp" {
		k.t.Errorf("pod %+v, want a worker", p.Spec)
	}
	message := filepath.Join(k.dir, p.Name)
	env := map[string]string{"POD_NAME": p.Name, "POD_NAMESPACE": p.Namespace}
	var err error
	if k.engine != "" {
		err = k.container(ctx, &p, message)
	} else {
		err = run(ctx, append(slices.Clone(c.Args), "--message", message, "--stress-ng", filepath.Join(k.dir, "stress-ng")), func(name string) string { return env[name] })
	}
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

// container runs a pod's container in its image until it ends. As from kubelet, it gets a file for its message. The
// label is that by which tools/test_images.sh removes what an ended test left.
func (k *kubelet) container(ctx context.Context, p *corev1.Pod, message string) error {
	if err := os.WriteFile(message, nil, 0o666); err != nil {
		return err
	}
	if err := os.Chmod(message, 0o666); err != nil { // the umask
		return err
	}
	c := p.Spec.Containers[0]
	args := []string{"run", "--rm", "--pull=never", "--network=host", "--read-only", "--tmpfs=/tmp:mode=1777", "--cap-drop=ALL", "--security-opt=no-new-privileges",
		"--label=kubernasium.test=" + os.Getenv(registryEnv), "--volume=" + message + ":" + corev1.TerminationMessagePathDefault,
		"--volume=" + k.account + ":/account:ro", "--env=" + kwok.KubeconfigVariable + "=/account", "--env=POD_NAME=" + p.Name, "--env=POD_NAMESPACE=" + p.Namespace}
	cmd := exec.CommandContext(ctx, k.engine, slices.Concat(args, []string{c.Image}, c.Args)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // which the engine's command passes on
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// stop ends what runs.
func (k *kubelet) stop() {
	k.cancel()
	k.wait.Wait()
}

// notes returns the arguments with which stress-ng ran.
func (k *kubelet) notes() []string {
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
	if err := clientcmdapi.FlattenConfig(c); err != nil { // for a container, which has no other file
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), account)
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil { // the worker's user differs
		t.Fatal(err)
	}
	return path
}

// wantAdmitted asks whether the namespace admits the pods of Jobs in files.
func wantAdmitted(t *testing.T, client kubernetes.Interface, files ...string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var j batchv1.Job
		if err := yaml.UnmarshalStrict(text, &j); err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: j.Name}, Spec: j.Spec.Template.Spec}
		if _, err := client.CoreV1().Pods(j.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("the pod of %s: %v", file, err)
		}
	}
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
