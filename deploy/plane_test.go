package deploy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

const (
	helmEnv     = "KUBERNASIUM_HELM"     // path of Helm's command
	programsEnv = "KUBERNASIUM_PROGRAMS" // folder with server, trainer and kubernasium-scheduler
	chart       = "helm/kubernasium"
	patience    = time.Minute // of waits; they take a second on an idle machine
)

func TestMain(m *testing.M) { os.Exit(kwoktest.Main(m)) }

// helmCommand returns the command, with a home of its own.
func helmCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path := os.Getenv(helmEnv)
	if path == "" {
		t.Skipf("needs Helm: `make test-deploy` builds it and runs this; or set %s to it", helmEnv)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+filepath.Join(home, "none"))
	return cmd
}

// helm runs Helm and returns what it printed to standard output.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryHelm(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryHelm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := helmCommand(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// A cluster is the control plane that the tests share: it authorizes by roles, enforces pod security, and has
// a simulated node.
type cluster struct {
	*kwoktest.ControlPlane
	rest   *rest.Config
	client kubernetes.Interface
	home   string // folder of the test, which has one for each claim
}

var oneNode sync.Once

func openCluster(t *testing.T) *cluster {
	t.Helper()
	helmCommand(t) // skips where there is none
	c := &cluster{ControlPlane: kwoktest.Shared(t, "--authorization=rbac", "--admission=PodSecurity,ResourceQuota,LimitRanger"), home: t.TempDir()}
	var err error
	if c.rest, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	c.rest.QPS = -1
	if c.client, err = kubernetes.NewForConfig(c.rest); err != nil {
		t.Fatal(err)
	}
	oneNode.Do(func() { c.createNode(t, "node-1") })
	return c
}

func (c *cluster) createNode(t *testing.T, name string) {
	t.Helper()
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}
	if _, err := c.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{stages.Node: "fake"}},
		Status:     corev1.NodeStatus{Allocatable: size, Capacity: size},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// namespace creates a namespace that admits restricted pods only, for the test.
func (c *cluster) namespace(t *testing.T) string {
	t.Helper()
	ns, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "deploy-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.client.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return ns.Name
}

// install installs the chart as release "kubernasium" into a namespace of the test's own, which it
// returns, and waits until its pods are ready. The release is uninstalled at the end.
func (c *cluster) install(t *testing.T, set ...string) string {
	t.Helper()
	ns := c.namespace(t)
	args := []string{"install", "kubernasium", chart, "--kubeconfig", c.Kubeconfig, "--namespace", ns, "--wait", "--timeout", patience.String()}
	if registry := os.Getenv(registryEnv); registry != "" {
		args = append(args, "--set", "imageRegistry="+registry)
	}
	if _, err := tryHelm(t, append(args, sets(set)...)...); err != nil {
		t.Fatalf("%v\n%s", err, c.state(ns))
	}
	t.Cleanup(func() {
		out, err := exec.Command(os.Getenv(helmEnv), "uninstall", "kubernasium", "--kubeconfig", c.Kubeconfig, "--namespace", ns, "--ignore-not-found").CombinedOutput()
		if err != nil {
			t.Errorf("uninstall: %v\n%s", err, out)
		}
	})
	return ns
}

// state describes what an installation may wait for: pods, claims, volumes, and the events of the namespace.
func (c *cluster) state(ns string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var out strings.Builder
	pods, err := c.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	fmt.Fprintf(&out, "pods of %s (%v):\n", ns, err)
	for _, p := range pods.Items {
		fmt.Fprintf(&out, "  %s on %q: %s %v\n", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Conditions)
	}
	claims, err := c.client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	fmt.Fprintf(&out, "claims of all namespaces (%v):\n", err)
	for _, p := range claims.Items {
		fmt.Fprintf(&out, "  %s/%s to %q: %s\n", p.Namespace, p.Name, p.Spec.VolumeName, p.Status.Phase)
	}
	volumes, err := c.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	fmt.Fprintf(&out, "volumes (%v):\n", err)
	for _, v := range volumes.Items {
		fmt.Fprintf(&out, "  %s of %v: %s\n", v.Name, v.Spec.ClaimRef, v.Status.Phase)
	}
	events, err := c.client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{})
	fmt.Fprintf(&out, "events (%v):\n", err)
	for _, e := range events.Items {
		fmt.Fprintf(&out, "  %s %s %s, %d times: %s\n", e.LastTimestamp.Format(time.TimeOnly), e.InvolvedObject.Kind, e.Reason, e.Count, e.Message)
	}
	return out.String()
}

func sets(values []string) (args []string) {
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

// eventually waits until done reports true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}
