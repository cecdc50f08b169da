package gpushare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Columns of Alibaba's GPU trace of 2020 (cluster-trace-gpu-v2020): of pai_machine_spec, and of pai_task_table. The
// published tables have their header lines in separate files.
var (
	machineColumns = []string{"machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"}
	taskColumns    = []string{"job_name", "task_name", "inst_num", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu"}
)

// has reports whether t has the columns.
func (t *table) has(columns []string) bool {
	return !slices.ContainsFunc(columns, func(c string) bool { return !slices.Contains(t.Header, c) })
}

// machine returns the node of a row of pai_machine_spec.
func (t *table) machine() Node {
	n := Node{
		Name: t.text("machine"), MilliCPU: t.scaled("cap_cpu", 1000, cluster.MaxAmount),
		MemoryMiB: t.scaled("cap_mem", 1024, cluster.MaxAmount/BytesMiB), GPUs: int(t.scaled("cap_gpu", 1, cluster.MaxDevices)),
	}
	if n.GPUs > 0 {
		n.Model = t.text("gpu_type")
	}
	return n
}

// tasks reads pai_task_table: a pod for each instance of each launched task, in the order of their starts. The first
// start is the beginning of the trace. The table gives the GPU model that a task ran on, not one that it requested, so
// no pod is bound to models.
func (t *table) tasks() []Pod {
	var pods []Pod
	for t.next() {
		if t.text("start_time") == "" || t.text("inst_num") == "" {
			continue
		}
		shape := Shape{
			MilliCPU: t.scaled("plan_cpu", 10, cluster.MaxAmount), MemoryMiB: t.scaled("plan_mem", 1024, cluster.MaxAmount/BytesMiB),
		}
		shape.GPUs, shape.MilliGPU = devices(t.scaled("plan_gpu", 10, WholeGPU*cluster.MaxDevices))
		start, end := t.seconds("start_time"), t.seconds("end_time")
		for i := range t.scaled("inst_num", 1, maxInstances) {
			pods = append(pods, Pod{Name: fmt.Sprintf("%s/%s/%d", t.text("job_name"), t.text("task_name"), i), Shape: shape,
				Created: start, Duration: max(0, end-start)})
		}
	}
	sinceFirst(pods)
	return pods
}

// devices returns the devices of a request for thousandths of a GPU, and the thousandths of each. More than one GPU is
// rounded up to whole ones.
func devices(milli int64) (gpus, each int32) {
	switch {
	case milli > WholeGPU:
		return int32((milli + WholeGPU - 1) / WholeGPU), WholeGPU
	case milli > 0:
		return 1, int32(milli)
	}
	return 0, 0
}

// maxInstances is above the instances of any task in the trace.
const maxInstances = 10_000

// scaled returns the number in a column times unit, rounded, from 0 to most; 0 if the field is empty.
func (t *table) scaled(column string, unit float64, most int64) int64 {
	field := t.text(column)
	if field == "" {
		return 0
	}
	v, err := strconv.ParseFloat(field, 64)
	if v = math.Round(v * unit); err != nil || !(v >= 0 && v <= float64(most)) { // also rejects NaN
		t.fail("%s is %q, want a number from 0 to %v", column, field, float64(most)/unit)
		return 0
	}
	return int64(v)
}

// seconds returns the time in a column; 0 if the field is empty.
func (t *table) seconds(column string) time.Duration {
	return Seconds(float64(t.scaled(column, 1, int64(cluster.MaxTime.Seconds()))))
}
