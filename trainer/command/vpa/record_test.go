package vpa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// metricsAPI serves upstream's types: with each list a minute has passed, and the container main of pod web-0 uses 10 m
// and 1 MiB more. It returns a kubeconfig for it.
func metricsAPI(t *testing.T, asked func(n int)) string {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/api/v1/") {
			_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}})
			return
		}
		n++
		asked(n)
		_ = json.NewEncoder(w).Encode(v1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: "metrics.k8s.io/v1beta1"}, Items: []v1beta1.PodMetrics{{
			ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "team"}, Timestamp: metav1.NewTime(time.Unix(int64(1_800_000_000+60*n), 0)),
			Containers: []v1beta1.ContainerMetrics{{Name: "main", Usage: corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(int64(10*n), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(n)<<20, resource.BinarySI),
			}}},
		}}})
	}))
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	config.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// playUsage plays an episode of 30 steps on a file or folder of usage.
func playUsage(t *testing.T, data string) {
	t.Helper()
	v, err := envs.Make("k8s/VerticalPodAutoscaler-v0", 1, envs.VecOptions{Autoreset: envs.Disabled, Options: map[string]any{
		"data": data, "split": "all", "history_h": 0, "steps": 30,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := v.Reset(context.Background(), envs.VecResetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for ; !b.Done(0); steps++ {
		if b, err = v.Step(context.Background(), make([]float32, 8)); err != nil {
			t.Fatal(err)
		}
	}
	if steps != 30 {
		t.Errorf("%s: an episode of %d steps, want 30", data, steps)
	}
}

// TestVPARecord records twice into one file, which becomes a workload and plays in the environment as it is.
func TestVPARecord(t *testing.T) {
	kubeconfig := metricsAPI(t, func(int) {})
	dir := t.TempDir()
	file := filepath.Join(dir, "usage.jsonl")
	args := []string{"vpa", "record", "--kubeconfig", kubeconfig, "--interval", "1ms", "-o", file, "--json"}
	var r vpaRecording
	for _, samples := range []string{"15", "25"} {
		if err := json.Unmarshal([]byte(mustExecute(t, append(args, "--samples", samples)...)), &r); err != nil {
			t.Fatal(err)
		}
	}
	if r.File != file || r.Samples != 25 || r.Containers != 1 || !r.Last.Equal(time.Unix(1_800_000_000+60*40, 0)) {
		t.Errorf("%+v, want 25 samples up to that of minute 40", r)
	}
	infos := workloads(t, "--data", file, "--out", dir)
	if len(infos) != 1 || infos[0].ID != "trace-team-web-0-main" || infos[0].Timesteps != 40 || infos[0].Max != (usage{400, 40 << 20}) {
		t.Errorf("workloads %+v, want one of 40 minutes up to 400 m and 40 MiB", infos)
	}
	for _, data := range []string{file, infos[0].Folder} {
		playUsage(t, data)
	}
}

// TestVPARecordInterrupted: what came before the signal is in the file, and the status says so.
func TestVPARecordInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kubeconfig := metricsAPI(t, func(n int) {
		if n == 4 {
			cancel()
		}
	})
	file := filepath.Join(t.TempDir(), "usage.jsonl")
	out, _, err := execute(t, ctx, "vpa", "record", "--kubeconfig", kubeconfig, "--interval", "1ms", "-o", file)
	if !errors.Is(err, cli.ErrInterrupted) || !strings.Contains(err.Error(), "samples are in "+file) || !strings.Contains(out, file) {
		t.Errorf("%v, want errInterrupted with the file\n%s", err, out)
	}
	all, _, err := workload.ReadFiles(file, "", workload.Grid{})
	if err != nil || len(all) != 1 || len(all[0].Usage) < 3 {
		t.Errorf("%d series, %v; want the first three samples at least", len(all), err)
	}
}

// TestVPATop: what kubectl top printed, with times, becomes a workload and plays.
func TestVPATop(t *testing.T) {
	var b strings.Builder
	var want []cluster.Resources
	for n := range 60 {
		fmt.Fprintf(&b, "2026-11-22T10:%02d:00+00:00\nPOD     NAME   CPU(cores)   MEMORY(bytes)   \nweb-0   main   %dm         %dMi          \n", n, 10+n, 100+n)
		want = append(want, cluster.Resources{MilliCPU: int64(10 + n), MemoryBytes: int64(100+n) << 20})
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "top.txt")
	envstest.Write(t, file, b.String())
	infos := workloads(t, "--workload-type", "top", "--data", file, "--out", dir)
	all, _, err := workload.ReadFiles(infos[0].Folder, "", workload.Grid{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, all[0].Usage); d != "" || len(all) != 1 || infos[0].ID != "top-web-0-main" {
		t.Errorf("%s (-printed +read):\n%s", infos[0].ID, d)
	}
	playUsage(t, file)
}

func TestVPARecordErrors(t *testing.T) {
	t.Setenv("KUBERNASIUM_KUBECONFIG", "")
	out := filepath.Join(t.TempDir(), "usage.jsonl")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "neither --kubeconfig nor KUBERNASIUM_KUBECONFIG names an API server"},
		{[]string{"--interval", "0s"}, "--interval is 0s and --samples 0, want more than 0"},
		{[]string{"--samples", "-1"}, "--samples -1"},
		{[]string{"--kubeconfig", "nowhere"}, "--kubeconfig: stat nowhere"},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"vpa", "record", "-o", out}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
