package gpuworkload

import (
	"fmt"
	"math"
	"strings"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// NewLive returns the source of a running cluster with the given number of nodes, which draws nothing.
func NewLive(nodes int) *Source {
	return &Source{config: Config{NumNodes: nodes, ReferenceSeed: -1}, Catalogue: &gpushare.Catalogue{}}
}

// AppendNodes appends the nodes of a running cluster to dst. One of them must have a GPU.
func AppendNodes(dst []gpushare.Node, s *cluster.State) ([]gpushare.Node, error) {
	gpus := 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.NumDevices > MaxNodeGPUs {
			return nil, fmt.Errorf("gpu: node %s has %d GPUs, want at most %d", s.NodeName(int32(i)), n.NumDevices, MaxNodeGPUs)
		}
		gpus += int(n.NumDevices)
		node := gpushare.Node{
			Name: s.NodeName(int32(i)), MilliCPU: n.Allocatable.MilliCPU, MemoryMiB: n.Allocatable.MemoryBytes / gpushare.BytesMiB,
			GPUs: int(n.NumDevices), MaxPods: int(n.MaxPods),
		}
		if n.NumDevices > 0 {
			node.Model = s.Meta(n.Meta).GPUModel
		}
		if n.MaxPods == 0 {
			node.MaxPods = math.MaxInt32
		}
		dst = append(dst, node)
	}
	if gpus == 0 {
		return nil, fmt.Errorf("gpu: none of the %d nodes has a GPU", len(s.Nodes))
	}
	return dst, nil
}

// ShapeOf returns the shape of a pod of a running cluster.
func ShapeOf(s *cluster.State, pod int32) gpushare.Shape {
	p := &s.Pods[pod]
	return gpushare.Shape{
		MilliCPU: p.Requests.MilliCPU, MemoryMiB: wholeMiB(p.Requests.MemoryBytes),
		GPUs: p.GPUs, MilliGPU: p.MilliGPU, Models: strings.Join(s.Meta(p.Meta).GPUModels, "|"),
	}
}

// ExtraOf returns what scores add to requests, in the units of the inventory.
func ExtraOf(r cluster.Resources) (milliCPU, memoryMiB int64) {
	return r.MilliCPU, wholeMiB(r.MemoryBytes)
}

// wholeMiB converts bytes to MiB, rounded up.
func wholeMiB(bytes int64) int64 { return (bytes + gpushare.BytesMiB - 1) / gpushare.BytesMiB }

// Restrict lets the pods of cat run only on nodes of s that are not cordoned.
func Restrict(cat *gpushare.Catalogue, s *cluster.State) {
	open := make([]bool, len(s.Nodes))
	for i := range s.Nodes {
		open[i] = !s.Nodes[i].Unschedulable
	}
	for i := range cat.Classes {
		cat.Classes[i].Allowed = open
	}
}

// Present returns the pods of s that are not deleted.
func Present(s *cluster.State) []gpushare.Pod {
	pods := make([]gpushare.Pod, 0, len(s.Pods))
	for i := range s.Pods {
		if s.Pods[i].Phase != cluster.Deleted {
			pods = append(pods, gpushare.Pod{Shape: ShapeOf(s, int32(i))})
		}
	}
	return pods
}

// AddExtra sets what kube-scheduler's scores add to the requests of the pods on each node.
func AddExtra(b *gpushare.Inventory, extra []cluster.Resources) {
	for i := range extra {
		n := &b.Nodes[i]
		n.ExtraCPU, n.ExtraMemory = ExtraOf(extra[i])
	}
}
