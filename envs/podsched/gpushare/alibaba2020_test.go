package gpushare

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAlibaba2020 reads tables of the published columns, made up by hand: plan_cpu and plan_gpu are percents, plan_mem
// and cap_mem GB (29.296875 are 30,000 MiB). Times count from the first start, 1,000 s. The task that still runs and the
// one that ends before its start have no duration, 150 % are two GPUs, and the task that waits is left out.
func TestAlibaba2020(t *testing.T) {
	pods, err := ReadPods(filepath.Join("testdata", "pai_task_table.csv"))
	if err != nil {
		t.Fatal(err)
	}
	wantPods := []Pod{
		{Name: "job_0/ps/0", Shape: Shape{MilliCPU: 6000, MemoryMiB: 8192}, Duration: 130 * time.Second},
		{Name: "job_1/tensorflow/0", Shape: Shape{MilliCPU: 12500, MemoryMiB: 65536, GPUs: 8, MilliGPU: 1000}, Created: 10 * time.Second},
		{Name: "job_2/worker/0", Shape: Shape{MilliCPU: 1000, MemoryMiB: 1536, GPUs: 2, MilliGPU: 1000}, Created: 20 * time.Second},
		{Name: "job_0/worker/0", Shape: Shape{MilliCPU: 4000, MemoryMiB: 30000, GPUs: 1, MilliGPU: 500}, Created: 30 * time.Second, Duration: 100 * time.Second},
		{Name: "job_0/worker/1", Shape: Shape{MilliCPU: 4000, MemoryMiB: 30000, GPUs: 1, MilliGPU: 500}, Created: 30 * time.Second, Duration: 100 * time.Second},
	}
	if d := cmp.Diff(wantPods, pods); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	nodes, err := ReadNodes(filepath.Join("testdata", "pai_machine_spec.csv"))
	if err != nil {
		t.Fatal(err)
	}
	wantNodes := []Node{
		{Name: "m0", MilliCPU: 96000, MemoryMiB: 524288, GPUs: 2, Model: "T4"},
		{Name: "m1", MilliCPU: 64000, MemoryMiB: 262144},
	}
	if d := cmp.Diff(wantNodes, nodes); d != "" {
		t.Errorf("nodes (-want +got):\n%s", d)
	}
}

// TestAlibaba2020Errors places each error at a file and a line.
func TestAlibaba2020Errors(t *testing.T) {
	tasks, machines := strings.Join(taskColumns, ",")+"\n", strings.Join(machineColumns, ",")+"\n"
	for _, tc := range []struct{ text, want string }{
		{tasks, "no pod"},
		{tasks + "j,t,1,,,100,1,100\n", "no pod"},
		{tasks + "j,t,1,1,2,NaN,1,100\n", `f.csv:2: plan_cpu is "NaN", want a number from 0`},
		{tasks + "j,t,1,1,2,100,1,6500\n", `plan_gpu is "6500", want a number from 0 to 6400`},
		{tasks + "j,t,1e9,1,2,100,1,100\n", `inst_num is "1e9"`},
		{tasks + "j,t,1,-1,2,100,1,100\n", `start_time is "-1"`},
	} {
		if _, err := (Assumed{}).parsePods("f.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("tasks %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
	for _, tc := range []struct{ text, want string }{
		{machines, "no node"},
		{machines + ",T4,1,1,1\n", "machine is empty"},
		{machines + "m,T4,1,1,65\n", `cap_gpu is "65"`},
	} {
		if _, err := (Assumed{}).parseNodes("f.csv", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("machines %q: %v, want an error with %q", tc.text, err, tc.want)
		}
	}
}
