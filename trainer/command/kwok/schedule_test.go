package kwok

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/kwok/scheduler"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// startSchedule runs the command until stop is called, which returns its standard output. It
// returns the address of the endpoints.
func startSchedule(t *testing.T, args ...string) (url string, stop func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := root()
	cmd.SetArgs(append([]string{"kwok", "schedule", "--listen", "127.0.0.1:0"}, args...))
	var stdout bytes.Buffer
	stderr, w := io.Pipe()
	cmd.SetOut(&stdout)
	cmd.SetErr(w)
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = w.Close() // of a pipe, which cannot fail
		ended <- err
	}()
	lines := bufio.NewReader(stderr)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("kwok schedule ended before it listened: %v", <-ended)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // ends with the command
	url = strings.TrimSuffix(strings.TrimSpace(first[strings.Index(first, "http://"):]), "/healthz")
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(url + "/healthz")
		if err == nil {
			_ = resp.Body.Close() // nothing of it is wanted
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("GET %s/healthz: %v", url, err)
		}
	}
	return url, func() string {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("kwok schedule: %v", err)
		}
		return stdout.String()
	}
}

// TestKwokSchedule: a trained model places the earlier project's workload, and its shadow tells
// what it would have done where kube-scheduler places it.
func TestKwokSchedule(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	t.Setenv(play.TokenVariable, "")
	model := filepath.Join("..", "..", "..", "models", "pretrained", "k8s-PodBalance-v0", "ppo.safetensors")
	runsim := func(name string) {
		t.Helper()
		_, stderr, err := execute(t, context.Background(), "kwok", "runsim", "--scheduler_name", name, "--interval", "0s", "--node_count", "3",
			"--cluster_resets", "1", "--kubeconfig", kubeconfig)
		if err != nil {
			t.Fatalf("runsim: %v\n%s", err, stderr)
		}
	}
	events := t.TempDir()
	url, stop := startSchedule(t, "--model", model, "--kubeconfig", kubeconfig, "--budget", "1m", "--tensorboard", events)
	runsim("custom-scheduler")
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // it is read
	if !strings.Contains(string(metrics), `kubernasium_scheduler_schedule_attempts_total{result="scheduled"}`) || strings.Contains(string(metrics), "kubernasium_scheduler_fallbacks_total{") {
		t.Errorf("metrics after the workload:\n%s", metrics)
	}
	stop()
	const pods = 39 // at least: 0.2 of 3 × 64 CPU is 38.4 pods of 1 CPU
	checkPlacementLog(t, events, string(metrics), pods)
	log := filepath.Join(t.TempDir(), "shadow.jsonl")
	_, stop = startSchedule(t, "--model", model, "--kubeconfig", kubeconfig, "--budget", "1m", "--shadow", "--scheduler-name", "default-scheduler", "--shadow-log", log)
	runsim("default-scheduler")
	for end := time.Now().Add(clitest.Patience); strings.Count(clitest.Read(t, log), "\n") < pods; time.Sleep(10 * time.Millisecond) { // it may lag behind
		if time.Now().After(end) {
			t.Errorf("not %d records after %v", pods, clitest.Patience)
			break
		}
	}
	stop()
	text := clitest.Read(t, log)
	t.Run("GPUs", func(t *testing.T) { scheduleGPUs(t, kubeconfig) })
	records := strings.Split(strings.TrimSpace(text), "\n")
	if len(records) < pods {
		t.Errorf("%d records, want one for each of %d pods at least", len(records), pods)
	}
	for _, line := range records {
		var r scheduler.ShadowRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Chosen == "" || r.Bound == "" || r.Policy != "ppo" || r.Fallback != "" {
			t.Errorf("record %s: %v", line, err)
		}
	}
}

// scheduleGPUs: the model of GPUPodScheduling packs pods that share GPUs, and the bindings tell the
// devices.
func scheduleGPUs(t *testing.T, kubeconfig string) {
	ctx := context.Background()
	client, err := kwok.Connect(ctx, kwok.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	size := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	have := size("64", "256Gi")
	have[corev1.ResourcePods], have["nvidia.com/gpu"] = resource.MustParse("110"), resource.MustParse("2")
	for _, name := range []string{"gpu-0", "gpu-1"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}, Status: corev1.NodeStatus{Allocatable: have, Capacity: have}}
		if _, err := client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, stop := startSchedule(t, "--model", filepath.Join("..", "..", "..", "models", "pretrained", "k8s-GPUPodScheduling-v0", "ppo.safetensors"),
		"--kubeconfig", kubeconfig, "--budget", "1m", "--scheduler-name", "gpu-scheduler")
	defer stop()
	const pods = 8 // of half a GPU: all that the four have
	for i := range pods {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("half-%d", i), Annotations: map[string]string{"alibabacloud.com/gpu-count": "1", "alibabacloud.com/gpu-milli": "500"}},
			Spec: corev1.PodSpec{SchedulerName: "gpu-scheduler", Containers: []corev1.Container{{Name: "main", Image: "kubernasium.io/simulated",
				Resources: corev1.ResourceRequirements{Requests: size("1", "1Gi")}}}},
		}
		if _, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var devices map[string]int
	bound := 0
	for end := time.Now().Add(time.Minute); bound < pods && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		devices, bound = map[string]int{}, 0
		for i := range list.Items {
			if p := &list.Items[i]; p.Spec.NodeName != "" {
				bound++
				devices[p.Spec.NodeName+"/"+p.Annotations["alibabacloud.com/gpu-index"]]++
			}
		}
	}
	for _, d := range []string{"gpu-0/0", "gpu-0/1", "gpu-1/0", "gpu-1/1"} {
		if devices[d] != 2 {
			t.Errorf("pods by device %v, want two halves on each of four", devices)
			break
		}
	}
}

// TestKwokQuality: a trained model places an episode alike in the simulator, as second scheduler
// and as extender, and kube-scheduler places as many pods.
func TestKwokQuality(t *testing.T) {
	if os.Getenv(launch.BinaryEnv) == "" {
		t.Skipf("needs a control plane: `make test-kwok` builds one and runs this; or set %s to its binary", launch.BinaryEnv)
	}
	args := []string{"kwok", "quality", "--model", filepath.Join("..", "..", "..", "models", "pretrained", "k8s-PodBalance-v0", "a2c.safetensors"), "--json"}
	for _, kv := range []string{"nodes:4", "pods:mixed", "cpu_load:0.3", "memory_load:0.3", "pod_load:0.3"} {
		args = append(args, "--env-kwargs", kv)
	}
	out, stderr, err := execute(t, context.Background(), args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	var rows []qualityRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	var by []string
	for _, r := range rows {
		by = append(by, r.By)
		if r.Pods < 20 || r.Placed != r.Pods {
			t.Errorf("%s placed %d of %d pods, want all, and 20 at least", r.By, r.Placed, r.Pods)
		}
		if ours := r.By == bySecond || r.By == byExtender; ours != (r.Equal != nil) || ours && (!*r.Equal || r.Imbalance != rows[0].Imbalance) {
			t.Errorf("%s: %+v, want as in the simulator: %+v", r.By, r, rows[0])
		}
	}
	if got := fmt.Sprint(by); got != "[simulator kube-scheduler custom-scheduler extender]" {
		t.Errorf("placed by %s", got)
	}
}

// TestSchedulePolicyOfATwin: a model that was trained on a twin schedules by the original's task.
func TestSchedulePolicyOfATwin(t *testing.T) {
	p, err := play.SchedulerPolicy("", "Greedy", "k8s/PodBalanceKwok-v0", map[string]any{"kubeconfig": "x", "nodes": 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Options["kubeconfig"]; ok || p.Env.ID != "k8s/PodBalance-v0" || p.Options["nodes"] != 3 {
		t.Errorf("policy of %s with %v, want the original's without kubeconfig", p.Env.ID, p.Options)
	}
}

// checkPlacementLog compares TensorBoard's tags of a scheduler with its metrics: a histogram of as
// many placements as there were, on three nodes, and the imbalance after each.
func checkPlacementLog(t *testing.T, folder, metrics string, least int) {
	t.Helper()
	const counter = `kubernasium_scheduler_schedule_attempts_total{result="scheduled"} `
	_, rest, _ := strings.Cut(metrics, counter)
	var placed float64
	if _, err := fmt.Sscan(rest, &placed); err != nil || int(placed) < least {
		t.Fatalf("%v pods placed, %v; want at least %d", placed, err, least)
	}
	onNodes, imbalances := 0.0, 0
	for _, e := range clitest.Events(t, folder) {
		for _, h := range e.Histograms {
			if h.Tag != "scheduler/placements_by_node" || h.Min < 0 || h.Max > 2 {
				t.Errorf("histogram %s of nodes %v to %v, want 0 to 2", h.Tag, h.Min, h.Max)
			}
			for _, n := range h.Counts {
				onNodes += n
			}
		}
		for _, s := range e.Scalars {
			if s.Tag == "scheduler/imbalance" {
				imbalances++
			}
			if s.Tag == "scheduler/fallbacks" && s.Value != 0 {
				t.Errorf("%v fallbacks after %d pods, want 0", s.Value, e.Step)
			}
		}
	}
	if onNodes != placed || float64(imbalances) != placed {
		t.Errorf("%v placements in histograms and %d imbalances, want %v", onNodes, imbalances, placed)
	}
}
