package gpushare

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Columns of Alibaba's trace of spot GPUs of 2026 (cluster-trace-v2026-spot-gpu): of node_info_df.csv and of
// job_info_df.csv.
//
// Source of this and of the formats: README.md of the folder in https://github.com/alibaba/clusterdata. Duan et al.,
// "GFS: A Preemptive Scheduling Framework for GPU Clusters with Predictive Spot Management", ASPLOS 2026.
var (
	spotNodeColumns = []string{"node_name", "gpu_model", "gpu_capacity_num", "cpu_num"}
	spotJobColumns  = []string{"job_name", "gpu_model", "cpu_request", "gpu_request", "worker_num", "submit_time", "duration"}
)

// spotServer has the memory of a GPU, which the trace does not give. Nodes and pods get it in proportion to their GPUs,
// so that any amount allows the same placements.
var spotServer = Assumed{MemoryMiB: 64 << 10}

// spotNode returns the node of a row of node_info_df.csv.
func (t *table) spotNode(a Assumed) Node {
	n := Node{
		Name: t.text("node_name"), MilliCPU: t.scaled("cpu_num", 1000, cluster.MaxAmount),
		GPUs: int(t.number("gpu_capacity_num", cluster.MaxDevices)),
	}
	n.MemoryMiB = int64(n.GPUs) * a.MemoryMiB
	if n.GPUs > 0 {
		if n.Model = t.text("gpu_model"); n.Model == "" {
			t.fail("gpu_model is empty, want the model of %d GPUs", n.GPUs)
		}
	}
	return n
}

// spotJobs reads job_info_df.csv: a pod for each instance of a job, bound to the GPU model that the job requests. CPUs
// and GPUs are those of an instance. Pods are in the order of their submissions; the first is the beginning of the
// trace. High-priority and spot jobs are alike.
func (t *table) spotJobs(a Assumed) []Pod {
	var pods []Pod
	for t.next() {
		job := t.text("job_name")
		if job == "" {
			t.fail("job_name is empty, want the job's name")
		}
		milli := t.scaled("gpu_request", WholeGPU, WholeGPU*cluster.MaxDevices)
		shape := Shape{MilliCPU: t.scaled("cpu_request", 1000, cluster.MaxAmount)}
		if shape.GPUs, shape.MilliGPU = devices(milli); milli > 0 {
			shape.Models, shape.MemoryMiB = t.text("gpu_model"), shape.TotalMilliGPU()*a.MemoryMiB/WholeGPU
		}
		submitted, duration := t.seconds("submit_time"), t.seconds("duration")
		for i := int64(0); i < t.number("worker_num", maxInstances) && t.err == nil; i++ {
			pods = append(pods, Pod{Name: fmt.Sprintf("%s/%d", job, i), Shape: shape, Created: submitted, Duration: duration})
		}
	}
	sinceFirst(pods)
	return pods
}
