package gpushare

import (
	"cmp"
	"math"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// Assumed is the CPU and memory for each GPU, for traces that do not give them: both of nodes in Philly and Helios, the
// memory in Alibaba's trace of 2026. Pods request the same for each GPU if their trace lacks the amount: CPU and memory
// in Philly, so that only GPUs decide which nodes they fit, and memory in the other two. Clusters that schedule by GPUs
// allocate in this way. The methods of Assumed read the files of [ReadNodes] and [ReadPods]; 0 selects the default of
// the trace.
//
// Source of the practice: Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022.
type Assumed struct {
	MilliCPU  int64
	MemoryMiB int64
}

// PerGPU returns the assumption of the given cores and GiB per GPU; 0 selects the default of the trace.
func PerGPU(cores, gib float64) Assumed {
	return Assumed{MilliCPU: int64(math.Round(1000 * cores)), MemoryMiB: int64(math.Round(1024 * gib))}
}

// ReadNodes is [ReadNodes] with these assumptions.
func (a Assumed) ReadNodes(path string) ([]Node, error) { return dataset.ReadFile(path, a.parseNodes) }

// ReadPods is [ReadPods] with these assumptions.
func (a Assumed) ReadPods(path string) ([]Pod, error) { return dataset.ReadFile(path, a.parsePods) }

// or returns a with the defaults of a trace.
func (a Assumed) or(trace Assumed) Assumed {
	return Assumed{MilliCPU: cmp.Or(a.MilliCPU, trace.MilliCPU), MemoryMiB: cmp.Or(a.MemoryMiB, trace.MemoryMiB)}
}

// gpus returns the shape of a pod with n whole GPUs and their CPU and memory.
func (a Assumed) gpus(n int) Shape {
	return Shape{MilliCPU: int64(n) * a.MilliCPU, MemoryMiB: int64(n) * a.MemoryMiB, GPUs: int32(n), MilliGPU: WholeGPU}
}
