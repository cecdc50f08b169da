package gpushare

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAlibaba2026 reads tables of the published columns, made up by hand. Times count from the submission of job 100, 64
// GiB go with a GPU, 2.5 GPUs are three, and job 104 has no instance.
func TestAlibaba2026(t *testing.T) {
	pods, err := ReadPods(filepath.Join("testdata", "spot_job_info_df.csv"))
	if err != nil {
		t.Fatal(err)
	}
	wantPods := []Pod{
		{Name: "100/0", Shape: Shape{MilliCPU: 4500, MemoryMiB: 16384, GPUs: 1, MilliGPU: 250, Models: "A10"}, Duration: 2764799 * time.Second},
		{Name: "101/0", Shape: Shape{MilliCPU: 8000, MemoryMiB: 65536, GPUs: 1, MilliGPU: 1000, Models: "A10"}, Created: time.Minute, Duration: 41060 * time.Second},
		{Name: "101/1", Shape: Shape{MilliCPU: 8000, MemoryMiB: 65536, GPUs: 1, MilliGPU: 1000, Models: "A10"}, Created: time.Minute, Duration: 41060 * time.Second},
		{Name: "102/0", Shape: Shape{MilliCPU: 20000, MemoryMiB: 3 * 65536, GPUs: 3, MilliGPU: 1000, Models: "GPU-series-1"}, Created: 2 * time.Minute},
		{Name: "103/0", Shape: Shape{MilliCPU: 16000}, Created: 3 * time.Minute, Duration: 30 * time.Second},
	}
	if d := cmp.Diff(wantPods, pods); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	nodes, err := Assumed{MemoryMiB: 1000}.ReadNodes(filepath.Join("testdata", "spot_node_info_df.csv"))
	if err != nil {
		t.Fatal(err)
	}
	wantNodes := []Node{
		{Name: "0", MilliCPU: 192000, MemoryMiB: 4000, GPUs: 4, Model: "GPU-series-1"},
		{Name: "1", MilliCPU: 126000, MemoryMiB: 1000, GPUs: 1, Model: "A10"},
		{Name: "2", MilliCPU: 64000},
	}
	if d := cmp.Diff(wantNodes, nodes); d != "" {
		t.Errorf("nodes (-want +got):\n%s", d)
	}
}

// TestAlibaba2026Errors places each error at a file and a line.
func TestAlibaba2026Errors(t *testing.T) {
	jobs, nodes := strings.Join(spotJobColumns, ",")+"\n", strings.Join(spotNodeColumns, ",")+"\n"
	for _, tc := range []struct{ text, want string }{
		{jobs, "no pod"},
		{jobs + "1,A10,1,1,0,0,1\n", "no pod"},
		{jobs + "1,A10,1,1,1,0,1\n,A10,1,1,1,0,1\n", "f.csv:3: job_name is empty"},
		{jobs + "1,A10,NaN,1,1,0,1\n", `f.csv:2: cpu_request is "NaN", want a number from 0`},
		{jobs + "1,A10,1,65,1,0,1\n", `gpu_request is "65", want a number from 0 to 64`},
		{jobs + "1,A10,1,1,10001,0,1\n", `worker_num is "10001", want a whole number from 0 to 10000`},
		{jobs + "1,A10,1,1,,0,1\n", `worker_num is ""`},
		{jobs + "1,A10,1,1,1,-1,1\n", `submit_time is "-1"`},
		{jobs + "1,A10,1,1,1,0,soon\n", `duration is "soon"`},
	} {
		if _, err := (Assumed{}).parsePods("f.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("jobs %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
	for _, tc := range []struct{ text, want string }{
		{nodes, "no node"},
		{nodes + ",A10,1,1\n", "node_name is empty"},
		{nodes + "1,,1,1\n", "f.csv:2: gpu_model is empty, want the model of 1 GPUs"},
		{nodes + "1,A10,1.5,1\n", `gpu_capacity_num is "1.5", want a whole number from 0 to 64`},
	} {
		if _, err := (Assumed{}).parseNodes("f.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("nodes %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
}
