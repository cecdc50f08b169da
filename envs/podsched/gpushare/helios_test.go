package gpushare

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestHelios reads tables of the published columns, made up by hand. 47 GiB are 48,128 MiB; a CPU without GPUs goes with a
// sixth of that, 8,021⅓ MiB.
func TestHelios(t *testing.T) {
	pods, err := ReadPods(filepath.Join("testdata", "helios_cluster_log.csv"))
	if err != nil {
		t.Fatal(err)
	}
	hour := time.Hour
	wantPods := []Pod{
		{Name: "10/0", Shape: Shape{MilliCPU: 4000, MemoryMiB: 32085}, Duration: 2 * time.Second}, // 4 × 8,021⅓, cut off
		// 17 GPUs are 6 + 6 + 5, 25 CPUs 9 + 8 + 8.
		{Name: "11/0", Shape: Shape{MilliCPU: 9000, MemoryMiB: 6 * 48128, GPUs: 6, MilliGPU: 1000}, Created: time.Minute, Duration: hour},
		{Name: "11/1", Shape: Shape{MilliCPU: 8000, MemoryMiB: 6 * 48128, GPUs: 6, MilliGPU: 1000}, Created: time.Minute, Duration: hour},
		{Name: "11/2", Shape: Shape{MilliCPU: 8000, MemoryMiB: 5 * 48128, GPUs: 5, MilliGPU: 1000}, Created: time.Minute, Duration: hour},
		// 12 never started.
		{Name: "13/0", Shape: Shape{MilliCPU: 2000, MemoryMiB: 48128, GPUs: 1, MilliGPU: 1000}, Created: 3 * time.Minute},
	}
	if d := cmp.Diff(wantPods, pods); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	nodes, err := ReadNodes(filepath.Join("testdata", "helios_cluster_gpu_number.csv"))
	if err != nil {
		t.Fatal(err)
	}
	wantNodes := []Node{ // twelve GPUs on the last day
		{Name: "node-0000", MilliCPU: 48000, MemoryMiB: 376 * 1024, GPUs: 8, Model: "GPU"},
		{Name: "node-0001", MilliCPU: 24000, MemoryMiB: 188 * 1024, GPUs: 4, Model: "GPU"},
	}
	if d := cmp.Diff(wantNodes, nodes); d != "" {
		t.Errorf("nodes (-want +got):\n%s", d)
	}
}

// TestHeliosAssumed: the CPUs of nodes and the memory of both follow the assumptions; the CPUs of pods are the log's.
func TestHeliosAssumed(t *testing.T) {
	a := Assumed{MilliCPU: 2000, MemoryMiB: 1000}
	nodes, err := a.ReadNodes(filepath.Join("testdata", "helios_cluster_gpu_number.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := nodes[1], (Node{Name: "node-0001", MilliCPU: 8000, MemoryMiB: 4000, GPUs: 4, Model: "GPU"}); got != want {
		t.Errorf("node %+v, want %+v", got, want)
	}
	pods, err := a.ReadPods(filepath.Join("testdata", "helios_cluster_log.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pods[0].Shape, (Shape{MilliCPU: 4000, MemoryMiB: 2000}); got != want {
		t.Errorf("pod %+v, want %+v", got, want)
	}
	if got, want := pods[1].Shape, (Shape{MilliCPU: 9000, MemoryMiB: 6000, GPUs: 6, MilliGPU: 1000}); got != want {
		t.Errorf("pod %+v, want %+v", got, want)
	}
}

// TestHeliosErrors places each error at a file and a line.
func TestHeliosErrors(t *testing.T) {
	jobs := strings.Join(jobColumns, ",") + "\n"
	const good = "1,1,1,1,2020-04-01 10:00:00,2020-04-01 10:00:00,5\n"
	for _, tc := range []struct{ text, want string }{
		{jobs, "no pod"},
		{jobs + "1,1,1,1,2020-04-01 10:00:00,,5\n", "no pod"},
		{jobs + good + ",1,1,1,2020-04-01 10:00:00,2020-04-01 10:00:00,5\n", "f.csv:3: job_id is empty"},
		{jobs + "1,1,1,0,2020-04-01 10:00:00,2020-04-01 10:00:00,5\n", "f.csv:2: node_num is 0, want the number of nodes"},
		{jobs + "1,129,1,2,2020-04-01 10:00:00,2020-04-01 10:00:00,5\n", `gpu_num is "129", want a whole number from 0 to 128`},
		{jobs + "1,1,1001,1,2020-04-01 10:00:00,2020-04-01 10:00:00,5\n", `cpu_num is "1001", want a whole number from 0 to 1000`},
		{jobs + "1,0.5,1,1,2020-04-01 10:00:00,2020-04-01 10:00:00,5\n", `gpu_num is "0.5"`},
		{jobs + "1,1,1,1,,2020-04-01 10:00:00,5\n", `submit_time is "", want a time like 2006-01-02 15:04:05`},
		{jobs + "1,1,1,1,2020-04-01,2020-04-01 10:00:00,5\n", `submit_time is "2020-04-01", want a time from 1971`},
		{jobs + "1,1,1,1,2020-04-01 10:00:00,2020-04-01 10:00:00,-1\n", `duration is "-1"`},
		{jobs + good + strings.Replace(good, "2020", "2199", 1), "f.csv:3: pod 1/0 is submitted"},
	} {
		if _, err := (Assumed{}).parsePods("f.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("jobs %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
	days := strings.Join(dayColumns, ",") + "\n"
	for _, tc := range []struct{ text, want string }{
		{days, "no node"},
		{days + "2020-04-01,8\n2020-04-02,0\n", "f.csv:3: total is 0, want the GPUs"},
		{days + "2020-04-01,80001\n", `f.csv:2: total is "80001", want a whole number from 0 to 80000`},
	} {
		if _, err := (Assumed{}).parseNodes("f.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("days %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
}
