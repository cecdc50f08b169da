package kwok

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

func pretrainedModel(name string) string {
	return filepath.Join("..", "..", "..", "models", "pretrained", name+".safetensors")
}

func needScheduler(t *testing.T) string {
	t.Helper()
	path := os.Getenv(launch.SchedulerEnv)
	if path == "" {
		t.Skipf("needs the scheduler: `make test-kwok` builds it and runs this; or set %s to its binary", launch.SchedulerEnv)
	}
	return path
}

// TestWithPort: port 0 becomes a free port of the same host, as the endpoints are printed; other addresses stay.
func TestWithPort(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:10359", ":8080", "[::1]:80"} {
		if got, err := withPort(address); got != address || err != nil {
			t.Errorf("withPort(%q) = %q, %v, want the same", address, got, err)
		}
	}
	for _, host := range []string{"127.0.0.1", "localhost", ""} {
		got, err := withPort(net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", got)
		if err != nil {
			t.Fatalf("withPort of %q gives %q: %v", host, got, err)
		}
		_ = l.Close() // nobody has called
		if h, port, err := net.SplitHostPort(got); h != host || port == "0" || err != nil {
			t.Errorf("withPort of %q gives %q, want a port of that host", host, got)
		}
	}
	if _, err := withPort("127.0.0.1"); err == nil {
		t.Error("an address without port is accepted")
	}
}

// endpoints finds what the command says of its endpoints.
var endpoints = regexp.MustCompile(`(http://\S+)/healthz\n`)

// startSchedule runs the command until stop is called. It returns the address of the endpoints, as the command prints it.
func startSchedule(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	told := make(chan struct{})
	stderr := clitest.NewUntilText("/healthz\n", sync.OnceFunc(func() { close(told) }))
	cmd := root()
	cmd.SetArgs(append([]string{"kwok", "schedule", "--listen", "127.0.0.1:0"}, args...))
	cmd.SetOut(io.Discard)
	cmd.SetErr(stderr)
	go func() {
		err := cli.Execute(ctx, cmd)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, stderr.String())
		}
		ended <- err
	}()
	select {
	case <-told:
	case err := <-ended:
		t.Fatalf("kwok schedule ended: %v", err)
	}
	url = endpoints.FindStringSubmatch(stderr.String())[1]
	waitFor(t, "GET "+url+"/healthz", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("kwok schedule ended: %v", err)
		default:
		}
		resp, err := http.Get(url + "/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close() // nothing of it is wanted
		return resp.StatusCode == http.StatusOK
	})
	return url, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("kwok schedule: %v", err)
		}
	}
}

func waitFor(t *testing.T, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(clitest.Patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v not yet: %s", clitest.Patience, what)
		}
	}
}

// TestKwokSchedule: a trained model places the earlier project's workload.
func TestKwokSchedule(t *testing.T) {
	needScheduler(t)
	kubeconfig := kwoktest.Start(t).Kubeconfig
	t.Setenv(play.TokenVariable, "")
	events := t.TempDir()
	url, stop := startSchedule(t, "--model", pretrainedModel("k8s-PodBalance-v0/ppo"), "--kubeconfig", kubeconfig, "--budget", "1m", "--tensorboard", events)
	_, stderr, err := execute(t, context.Background(), "kwok", "runsim", "--scheduler_name", "custom-scheduler", "--interval", "0s", "--node_count", "3",
		"--cluster_resets", "1", "--kubeconfig", kubeconfig)
	if err != nil {
		t.Fatalf("runsim: %v\n%s", err, stderr)
	}
	count := func(prefix string) float64 {
		n, err := metricOf(t.Context(), url+"/metrics", func(line string) bool { return strings.HasPrefix(line, prefix) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const pods = 39 // at least: 0.2 of 3 × 64 CPU is 38.4 pods of 1 CPU
	if n, all := count(`kubernasium_decisions_total{profile="custom-scheduler",result="policy"}`), count(`kubernasium_decisions_total`); n < pods || n != all {
		t.Errorf("%v decisions of the policy of %v, want %d at least, and no others", n, all, pods)
	}
	told := false
	imbalance, err := metricOf(t.Context(), url+"/metrics", func(line string) bool {
		is := strings.HasPrefix(line, "kubernasium_imbalance_percent{")
		told = told || is
		return is
	})
	if err != nil || !told || imbalance > 5 {
		t.Errorf("imbalance %v %%, %v, %v, want it told, and that of equal pods on equal nodes: less than 5", imbalance, told, err)
	}
	n := int(count(`kubernasium_decisions_total{profile="custom-scheduler",result="policy"}`))
	waitFor(t, "the log has all placements", func() bool { // what is seen of them may lag behind
		imbalances, _ := placementsLogged(t, events)
		return len(imbalances) >= n
	})
	stop()
	imbalances, onNodes := placementsLogged(t, events)
	// The workload's pods are equal: 1 CPU of 64 and 2 Gi of 256.
	want := 100 * stat.PopStdDev(onNodes[:], nil) * (1./64 + 2./256) / 2
	if last := imbalances[len(imbalances)-1]; len(imbalances) != n || floats.Sum(onNodes[:]) != float64(n) || math.Abs(last-want) > 1e-5 {
		t.Errorf("logged %d placements, on nodes %v in histograms, and at last an imbalance of %v %%; want %d, and %v %%", len(imbalances), onNodes, last, n, want)
	}
}

// placementsLogged reads TensorBoard's tags of a scheduler of three nodes: the imbalance after each
// placement, and the placements on each node by the histograms, whose limits are half above whole numbers.
func placementsLogged(t *testing.T, folder string) (imbalances []float64, onNodes [3]float64) {
	t.Helper()
	for _, e := range clitest.Events(t, folder) {
		for _, h := range e.Histograms {
			if h.Tag != "scheduler/placements_by_node" || h.Min < 0 || h.Max > 2 {
				t.Errorf("histogram %s of nodes %v to %v, want 0 to 2", h.Tag, h.Min, h.Max)
			}
			for i, n := range h.Counts {
				if n > 0 {
					onNodes[int(math.Round(h.Limits[i]-0.5))] += n
				}
			}
		}
		for _, s := range e.Scalars {
			if s.Tag == "scheduler/imbalance" {
				imbalances = append(imbalances, float64(s.Value))
			}
		}
	}
	return imbalances, onNodes
}

// TestKwokScheduleRivals: of two schedulers one holds the lease; when it is killed the other takes over.
func TestKwokScheduleRivals(t *testing.T) {
	binary := needScheduler(t)
	kubeconfig := kwoktest.Start(t).Kubeconfig
	t.Setenv(play.TokenVariable, "")
	ctx := t.Context()
	client, err := kwok.Connect(ctx, kwok.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		createSized(t, client, name)
	}
	var rivals []*exec.Cmd
	for range 2 {
		config := mustExecute(t, "kwok", "schedule", "--policy", "Greedy", "--kubeconfig", kubeconfig, "--listen", "", "--lease-duration", "6s", "--print-config")
		file := envstest.TempFile(t, "scheduler.yaml", config)
		cmd := exec.Command(binary, "--config="+file, "--secure-port=0")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // one of them is dead
			_ = cmd.Wait()
		})
		rivals = append(rivals, cmd)
		if len(rivals) == 1 {
			waitFor(t, "a leader", func() bool { return holder(ctx, client) != "" })
		}
	}
	bindings := func() map[string]int {
		events, err := client.EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bound := map[string]int{}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "Scheduled" {
				bound[e.Regarding.Name]++
			}
		}
		return bound
	}
	first := holder(ctx, client)
	schedulePod(t, client, "one")
	waitFor(t, "the event of pod one", func() bool { return bindings()["one"] > 0 }) // it comes after the binding
	if err := rivals[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	schedulePod(t, client, "two")
	if second := holder(ctx, client); second == first || second == "" {
		t.Errorf("the lease is held by %q after %q was killed, want the other", second, first)
	}
	waitFor(t, "the event of pod two", func() bool { return bindings()["two"] > 0 })
	bound := bindings()
	if bound["one"] != 1 || bound["two"] != 1 {
		t.Errorf("pods were bound %v times, want each once", bound)
	}
}

func holder(ctx context.Context, client kubernetes.Interface) string {
	l, err := client.CoordinationV1().Leases("kube-system").Get(ctx, "custom-scheduler", metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func createSized(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	have := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}, Status: corev1.NodeStatus{Allocatable: have, Capacity: have}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// schedulePod creates a pod and waits until it has a node.
func schedulePod(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{SchedulerName: "custom-scheduler", Containers: []corev1.Container{{Name: "main", Image: "kubernasium.io/simulated"}}}}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "pod "+name+" has a node", func() bool {
		p, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && p.Spec.NodeName != ""
	})
}

// TestSchedulePrintConfig: the configuration holds what the flags say, by the names of kube-scheduler's API.
func TestSchedulePrintConfig(t *testing.T) {
	t.Setenv(play.TokenVariable, "")
	out := mustExecute(t, "kwok", "schedule", "--model", pretrainedModel("k8s-PodBalance-v0/ppo"), "--scheduler-name", "mine", "--order", "policy", "--margin", "0",
		"--kubeconfig", "/k", "--lease-duration", "30s", "--env-kwargs", "steps:9", "--print-config")
	var c struct {
		Kind             string
		ClientConnection struct{ Kubeconfig string }
		LeaderElection   struct{ ResourceName, LeaseDuration, RenewDeadline, RetryPeriod string }
		Profiles         []struct {
			SchedulerName string
			Plugins       struct {
				Bind, MultiPoint, Score struct {
					Enabled, Disabled []struct{ Name string }
				}
			}
			PluginConfig []struct {
				Name string
				Args map[string]any
			}
		}
	}
	if err := yaml.Unmarshal([]byte(out), &c); err != nil || len(c.Profiles) != 1 || len(c.Profiles[0].PluginConfig) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	p := c.Profiles[0]
	if c.Kind != "KubeSchedulerConfiguration" || c.ClientConnection.Kubeconfig != "/k" || p.SchedulerName != "mine" || p.Plugins.MultiPoint.Enabled[0].Name != "Kubernasium" || p.Plugins.Bind.Enabled[0].Name != "Kubernasium" ||
		len(p.Plugins.Score.Enabled) != 1 || p.Plugins.Score.Enabled[0].Name != "Kubernasium" || p.Plugins.Score.Disabled[0].Name != "*" {
		t.Errorf("configuration:\n%s", out)
	}
	if l := c.LeaderElection; l.ResourceName != "mine" || l.LeaseDuration != "30s" || l.RenewDeadline != "20s" || l.RetryPeriod != "4s" {
		t.Errorf("lease %+v, want that of 30, 20 and 4 s", l)
	}
	args := p.PluginConfig[0].Args
	if path, _ := args["model"].(string); !filepath.IsAbs(path) || args["order"] != "policy" || args["margin"] != 0.0 || args["nodeSelector"] != defaultNodeSelector || fmt.Sprint(args["options"]) != "map[steps:9]" {
		t.Errorf("arguments %v", args)
	}
}

// TestScheduleRefuses: what cannot be run is an error before anything starts.
func TestScheduleRefuses(t *testing.T) {
	t.Setenv(play.TokenVariable, "")
	for want, args := range map[string][]string{
		"one of --model and --policy": {},
		"Greedy":                      {"--policy", "Best"},
		"needs a token":               {"--policy", "Greedy", "--listen", "0.0.0.0:1"},
	} {
		if _, _, err := execute(t, context.Background(), append([]string{"kwok", "schedule", "--print-config"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("schedule %v: %v, want an error with %q", args, err, want)
		}
	}
}

// TestKwokQuality: a trained model places an episode alike in the simulator and as kube-scheduler's plugin, and
// kube-scheduler places as many pods.
func TestKwokQuality(t *testing.T) {
	if os.Getenv(launch.BinaryEnv) == "" {
		t.Skipf("needs a control plane: `make test-kwok` builds one and runs this; or set %s to its binary", launch.BinaryEnv)
	}
	args := []string{"kwok", "quality", "--model", pretrainedModel("k8s-PodBalance-v0/a2c"), "--policy", "Greedy", "--json"}
	for _, kv := range []string{"nodes:4", "pods:mixed", "cpu_load:0.3", "memory_load:0.3", "pod_load:0.3"} {
		args = append(args, "--env-kwargs", kv)
	}
	out, stderr, err := execute(t, context.Background(), args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	rows := clitest.Decode[[]qualityRow](t, out)
	var by []string
	for i, r := range rows {
		by = append(by, r.By)
		if r.Pods < 20 || r.Placed != r.Pods || r.Fallbacks != 0 {
			t.Errorf("%s placed %d of %d pods with %d fallbacks, want all, 20 at least, without", r.By, r.Placed, r.Pods, r.Fallbacks)
		}
		if ours := r.By == byPlugin; ours != (r.Equal != nil) || ours && (!*r.Equal || r.Imbalance != rows[i-3].Imbalance) {
			t.Errorf("%s %s: %+v, want as in the simulator", r.By, r.Policy, r)
		}
	}
	if got := fmt.Sprint(by); got != "[simulator simulator kube-scheduler plugin plugin]" {
		t.Errorf("placed by %s", got)
	}
}
