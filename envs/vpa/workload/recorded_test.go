package workload_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// TestParseQuantity: values by the definitions of the suffixes in Kubernetes' documentation, "Resource Management for
// Pods and Containers".
func TestParseQuantity(t *testing.T) {
	for text, want := range map[string]float64{
		"250m": 0.25, "12345678n": 0.012345678, "7u": 7e-6, "2": 2, "0": 0, "0.5": 0.5, "1e3": 1000, "1E3": 1000, "2E": 2e18, "3k": 3000,
		"128Mi": 134217728, "1Gi": 1 << 30, "400Ki": 409600, "1.5Gi": 1610612736, "129M": 129e6, "-1": -1,
	} {
		if got, err := workload.ParseQuantity(text); err != nil || math.Abs(got-want) > 1e-15*math.Abs(want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "1x", "1 Mi", "Mi", "1mi", "0x10", "1e", "NaN", "Inf", "1_0", "1e999", "1e3Mi"} {
		if got, err := workload.ParseQuantity(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

// What `kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods` gave three times, and the pods' own objects between.
const metricsFile = `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
 {"metadata":{"name":"web-0","namespace":"team"},"timestamp":"2026-11-22T10:00:00Z","window":"15s","containers":[
  {"name":"main","usage":{"cpu":"250m","memory":"128Mi"}},{"name":"sidecar","usage":{"cpu":"1500000n","memory":"2048Ki"}}]}]}
{"kind":"PodMetricsList","items":[
 {"metadata":{"name":"web-0","namespace":"team"},"timestamp":"2026-11-22T10:00:00Z","containers":[
  {"name":"main","usage":{"cpu":"250m","memory":"128Mi"}},{"name":"sidecar","usage":{"cpu":"1500000n","memory":"2048Ki"}}]}]}
{"kind":"PodList","items":[{"metadata":{"name":"web-0","namespace":"team"},"spec":{"containers":[
 {"name":"main","resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"2"}}}]}}]}
{"kind":"PodMetrics","metadata":{"name":"web-0","namespace":"team"},"timestamp":"2026-11-22T10:01:00Z","containers":[
 {"name":"main","usage":{"cpu":"1","memory":"64Mi"}},{"name":"sidecar","usage":{"cpu":"0","memory":"3Mi"}}]}
`

// TestReadPodMetrics: the second document repeats the sample of the first, since the server had no newer one: it counts
// once. Memory of 2048 Ki is 2 MiB, a CPU of 1500000 n is 1.5 m, which rounds to 2.
func TestReadPodMetrics(t *testing.T) {
	main := workload.Series{
		ID: "team/web-0/main", Interval: time.Minute, Usage: []cluster.Resources{{MilliCPU: 250, MemoryBytes: 128 << 20}, {MilliCPU: 1000, MemoryBytes: 64 << 20}},
		Requests: cluster.Resources{MilliCPU: 1000, MemoryBytes: 1 << 30}, Limits: cluster.Resources{MilliCPU: 2000},
	}
	sidecar := workload.Series{ID: "team/web-0/sidecar", Interval: time.Minute, Usage: []cluster.Resources{{MilliCPU: 2, MemoryBytes: 2 << 20}, {MemoryBytes: 3 << 20}}}
	for _, name := range []string{"usage.jsonl", "usage.json", "usage.jsonl.gz"} {
		got, report, err := workload.ReadFiles(folder(t, map[string]string{name: metricsFile}), "", minute)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]workload.Series{main, sidecar}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if report.Samples != 4 {
			t.Errorf("%s: %d samples, want 4", name, report.Samples)
		}
	}
}

func TestBadPodMetrics(t *testing.T) {
	item := func(rest string) string {
		return `{"kind":"PodMetricsList","items":[{"metadata":{"name":"p"},` + rest + `}]}`
	}
	const at = `"timestamp":"2026-11-22T10:00:00Z"`
	for _, tc := range []struct{ name, file, want string }{
		{"another kind", `{"kind":"NodeMetricsList","items":[{}]}`, `document 1: kind "NodeMetrics", want PodMetricsList`},
		{"no kind", `{}`, `kind ""`},
		{"no time", item(`"containers":[]`), "the metrics of pod p have no timestamp"},
		{"bad amount", item(at + `,"containers":[{"name":"c","usage":{"cpu":"1x","memory":"1"}}]`), `container p/c: cpu: quantity "1x"`},
		{"negative", item(at + `,"containers":[{"name":"c","usage":{"cpu":"-1","memory":"1"}}]`), `cpu is "-1", want 0 to`},
		{"nobody", item(at + `,"containers":[]`), "no sample of any container"},
		{"cut", metricsFile + `{"kind":`, "document 5: unexpected EOF"},
	} {
		_, _, err := workload.ReadFiles(folder(t, map[string]string{"u.jsonl": tc.file}), "", minute)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestReadTop: times before tables and before rows, in three forms; with and without namespaces, containers, headers.
func TestReadTop(t *testing.T) {
	two := []cluster.Resources{{MilliCPU: 250, MemoryBytes: 128 << 20}, {MilliCPU: 1000, MemoryBytes: 64 << 20}}
	series := func(id string) []workload.Series {
		return []workload.Series{{ID: id, Interval: time.Minute, Usage: two}}
	}
	for _, tc := range []struct {
		name, file, id string
	}{
		{"containers", `2026-11-22T10:00:00+00:00
POD     NAME   CPU(cores)   MEMORY(bytes)
web-0   main   250m         128Mi

2026-11-22T11:01:00+01:00
POD     NAME   CPU(cores)   MEMORY(bytes)
web-0   main   1            64Mi
`, "web-0/main"},
		{"Unix seconds, pods of all namespaces", `# 1795000000
NAMESPACE   NAME    CPU(cores)   MEMORY(bytes)
team        web-0   250m         128Mi
# 1795000060.5
NAMESPACE   NAME    CPU(cores)   MEMORY(bytes)
team        web-0   1000m        64Mi
`, "team/web-0"},
		{"date, no header", `Sun Nov 22 10:00:00 UTC 2026
web-0 main 250m 128Mi
Sun Nov 22 10:01:00 UTC 2026
web-0 main 1000m 64Mi
`, "web-0/main"},
		{"times in rows, five columns", `2026-11-22T10:00:00Z team web-0 main 250m 128Mi
2026-11-22T10:01:00Z team web-0 main 1 64Mi
2026-11-22T10:01:30Z team web-0 main <unknown> <unknown>
`, "team/web-0/main"},
		{"times in rows, three columns, not sorted", `2026-11-22T10:01:00Z web-0 1 64Mi
2026-11-22T10:00:00Z web-0 250m 128Mi
`, "web-0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _, err := workload.ReadFiles(filepath.Join(folder(t, map[string]string{"top.txt": tc.file}), "top.txt"), "", minute)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(series(tc.id), got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestBadTop(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"no time", "POD NAME CPU(cores) MEMORY(bytes)\nweb-0 main 1m 1Mi\n", "u.txt:2: usage without a time before it: print `date -Iseconds`"},
		{"nodes", "2026-11-22T10:00:00Z\nNAME CPU(cores) CPU% MEMORY(bytes) MEMORY%\n", `u.txt:2: column "CPU%", want the header of`},
		{"prose", "2026-11-22T10:00:00Z\nerror: Metrics not available for pod team/web-0, age: 3s\n", "u.txt:2: 9 columns, want those of `kubectl top pod`"},
		{"bad amount", "2026-11-22T10:00:00Z\nweb-0 main 1q 1Mi\n", `u.txt:2: quantity "1q"`},
		{"negative", "2026-11-22T10:00:00Z\nweb-0 main -1m 1Mi\n", "u.txt:2: CPU usage -1 m"},
		{"empty", "2026-11-22T10:00:00Z\n", "no sample of any container"},
	} {
		_, _, err := workload.ReadFiles(folder(t, map[string]string{"u.txt": tc.file}), workload.FormatTop, minute)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
