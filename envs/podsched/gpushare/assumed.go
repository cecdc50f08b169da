package gpushare

import (
	"cmp"
	"math"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// Assumed is the CPU and the memory of a node for each of its GPUs where a trace names none: nodes of Philly and Helios. Pods
// request as much for each GPU of what their trace does not name: CPU and memory in Philly, so that GPUs alone decide where
// they fit, and memory in Helios. Clusters that schedule by GPUs allocate so. The methods of Assumed read the files of
// [ReadNodes] and [ReadPods]; 0 takes the default of the trace.
//
// Source of the practice: Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022.
type Assumed struct {
	MilliCPU  int64
	MemoryMiB int64
}

// PerGPU returns the assumption of so many cores and GiB; 0 takes the default of the trace.
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

// gpus returns a pod's shape with so many whole GPUs and the CPU and memory that go with them.
func (a Assumed) gpus(n int) Shape {
	return Shape{MilliCPU: int64(n) * a.MilliCPU, MemoryMiB: int64(n) * a.MemoryMiB, GPUs: int32(n), MilliGPU: WholeGPU}
}
