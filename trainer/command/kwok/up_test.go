package kwok

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	metricsv1beta1 "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// startUp runs `trainer --json kwok up` until stop is called, and returns what it printed.
func startUp(t *testing.T, args ...string) (r upReport, stop func()) {
	t.Helper()
	if os.Getenv(launch.BinaryEnv) == "" {
		t.Skipf("needs a control plane: `make test-controlplane` builds one and runs this; or set %s to its binary", launch.BinaryEnv)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	out := clitest.NewUntilText("}\n", func() {
		select {
		case <-ready:
		default:
			close(ready)
		}
	})
	cmd := root()
	cmd.SetArgs(append([]string{"--json", "kwok", "up"}, args...))
	cmd.SetOut(out)
	stderr := clitest.NewUntilText("\x00", func() {})
	cmd.SetErr(stderr)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("trainer kwok up %s: %v", strings.Join(args, " "), err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("trainer kwok up %s: %v\n%s", strings.Join(args, " "), err, stderr)
	case <-time.After(clitest.Patience):
		t.Fatalf("trainer kwok up %s: not ready after %v", strings.Join(args, " "), clitest.Patience)
	}
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return r, stop
}

// TestKwokUpNodes: nodes are there and ready when it says so, kubectl finds them by a context beside
// the user's own and knows what they use, and the context goes at the end.
func TestKwokUpNodes(t *testing.T) {
	file := envstest.TempFile(t, "config", kubeconfigText)
	t.Setenv("KUBECONFIG", file)
	r, stop := startUp(t, "--nodes", "3", "--node-cpu", "7500m", "--node-memory", "16Gi", "--node-pods", "20", "--node-gpus", "2", "--", "--components=kwok")
	if r.Context != "kubernasium" || r.Nodes != 3 {
		t.Errorf("it printed context %q and %d nodes, want kubernasium and 3", r.Context, r.Nodes)
	}
	rc, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{CurrentContext: r.Context}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 3 || nodes.Items[2].Name != "node-3" || nodes.Items[2].Labels["kubernetes.io/hostname"] != "node-3" {
		t.Errorf("%d nodes, want node-1 to node-3 with their names as labels", len(nodes.Items))
	}
	for i := range nodes.Items {
		gpus := nodes.Items[i].Status.Allocatable["nvidia.com/gpu"]
		have := nodes.Items[i].Status.Allocatable
		if have.Cpu().MilliValue() != 7500 || have.Memory().Value() != 16<<30 || have.Pods().Value() != 20 || gpus.Value() != 2 {
			t.Errorf("%s has %v, want 7500m, 16Gi, 20 pods and 2 GPUs", nodes.Items[i].Name, have)
		}
		for _, c := range nodes.Items[i].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				t.Errorf("%s is not ready", nodes.Items[i].Name)
			}
		}
	}
	wantTop(t, client, metricsv1beta1.NewForConfigOrDie(rc))
	stop()
	if text, err := os.ReadFile(file); err != nil || string(text) != kubeconfigText {
		t.Errorf("%v; the user's kubeconfig has changed:\n%s", err, text)
	}
}

// wantTop sees what kubectl top asks for: the usage in a pod's annotations.
func wantTop(t *testing.T, client kubernetes.Interface, metrics metricsv1beta1.MetricsV1beta1Interface) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "used", Annotations: map[string]string{"kwok.x-k8s.io/usage-cpu": "250m", "kwok.x-k8s.io/usage-memory": "64Mi"}},
		Spec:       corev1.PodSpec{NodeName: "node-2", Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var last error
	for end := time.Now().Add(clitest.Patience); ; time.Sleep(20 * time.Millisecond) {
		n, err := metrics.NodeMetricses().Get(t.Context(), "node-2", metav1.GetOptions{})
		if err == nil && n.Usage.Cpu().MilliValue() == 250 && n.Usage.Memory().Value() == 64<<20 {
			return
		}
		if last = err; time.Now().After(end) {
			t.Fatalf("node-2 uses %+v, %v; want 250m and 64Mi", n, last)
		}
	}
}

func TestKwokUpRefuses(t *testing.T) {
	for _, tc := range []struct{ name, args, want string }{
		{"no quantity", "--nodes 2 --node-cpu many", `--node-cpu is "many"`},
		{"negative memory", "--nodes 2 --node-memory -1Gi", `--node-memory is "-1Gi"`},
		{"negative nodes", "--nodes -1", "--nodes is -1"},
		{"size of none", "--node-gpus 2", "--node-gpus needs --nodes"},
		{"two places", "--kubeconfig x --context y", "only one of --kubeconfig and --context"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, _, err := execute(t, t.Context(), append([]string{"kwok", "up"}, strings.Fields(tc.args)...)...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("trainer kwok up %s = %v, want %q", tc.args, err, tc.want)
			}
		})
	}
}
