package gpushare

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Columns of SenseTime's Helios traces: of cluster_gpu_number.csv, which also has one for each virtual cluster, and of
// cluster_log.csv.
//
// Source of this and of the formats: README.md of https://github.com/S-Lab-System-Group/HeliosData. Hu et al.,
// "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC 2021.
var (
	dayColumns = []string{"date", "total"}
	jobColumns = []string{"job_id", "gpu_num", "cpu_num", "node_num", "submit_time", "start_time", "duration"}
)

// heliosServer is an eighth of the server that the artifact of the paper describes: 8 GPUs, 48 hardware threads, which are
// Slurm's CPUs, and 376 GiB.
var heliosServer = Assumed{MilliCPU: 6000, MemoryMiB: 47 << 10}

const (
	heliosGPUs = 8 // of a server
	// heliosModel stands for the GPU model, which a trace does not give. Pods that request GPUs fit only nodes with a
	// model.
	heliosModel = "GPU"
)

// days reads cluster_gpu_number.csv: the servers of the cluster on the last day, with eight GPUs each; a remainder is
// one more server. All virtual clusters share them.
func (t *table) days(a Assumed) []Node {
	total := -1
	for t.next() {
		total = int(t.number("total", maxInstances*heliosGPUs))
	}
	if total == 0 {
		t.fail("total is 0, want the GPUs of the cluster on its last day")
	}
	var nodes []Node
	for left := total; left > 0 && t.err == nil; left -= heliosGPUs {
		n := min(left, heliosGPUs)
		nodes = append(nodes, Node{
			Name: fmt.Sprintf("node-%04d", len(nodes)), MilliCPU: int64(n) * a.MilliCPU, MemoryMiB: int64(n) * a.MemoryMiB, GPUs: n, Model: heliosModel,
		})
	}
	return nodes
}

// jobs reads cluster_log.csv: a pod for each node of each job that started, with an equal part of its GPUs and CPUs;
// the first pods get the remainders. The log does not give memory; pods get it by GPUs or, in jobs without GPUs, by
// CPUs. Pods are in the order of their submissions; the first is the beginning of the trace.
func (t *table) jobs(a Assumed) []Pod {
	var pods []Pod
	for t.next() {
		if t.text("start_time") == "" {
			continue
		}
		id := t.text("job_id")
		if id == "" {
			t.fail("job_id is empty, want the job's id")
		}
		submitted, err := clock("submit_time", t.text("submit_time"))
		if err != nil {
			t.fail("%v", err)
		} else if submitted == 0 {
			t.fail("submit_time is %q, want a time like %s", t.text("submit_time"), clockLayout)
		}
		count := t.number("node_num", maxInstances)
		gpus, cpus := t.number("gpu_num", cluster.MaxDevices*max(count, 1)), t.number("cpu_num", 1_000*max(count, 1))
		if count == 0 {
			t.fail("node_num is 0, want the number of nodes of a job that started")
		}
		duration := t.seconds("duration")
		for i := int64(0); i < count && t.err == nil; i++ {
			s := a.gpus(int(part(gpus, count, i)))
			s.MilliCPU = 1000 * part(cpus, count, i)
			if s.GPUs == 0 {
				s.MilliGPU, s.MemoryMiB = 0, s.MilliCPU*a.MemoryMiB/a.MilliCPU
			}
			pods = append(pods, Pod{Name: fmt.Sprintf("%s/%d", id, i), Shape: s, Created: submitted, Duration: duration})
		}
	}
	sinceFirst(pods)
	if n := len(pods); n > 0 && pods[n-1].Created > cluster.MaxTime {
		t.fail("pod %s is submitted %v after the first, want at most %v", pods[n-1].Name, pods[n-1].Created, cluster.MaxTime)
	}
	return pods
}

// part returns the i-th of count nearly equal parts of sum; the first parts are the larger ones.
func part(sum, count, i int64) int64 {
	if i < sum%count {
		return sum/count + 1
	}
	return sum / count
}
