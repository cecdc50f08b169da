package gpushare

import (
	"cmp"
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// resources returns CPU and memory of node i with a pod of class c on it.
func (b *Inventory) resources(c *Class, i int32) (cpu, mem kubescore.Resource) {
	n := &b.Nodes[i]
	return kubescore.Resource{Requested: n.AllCPU - n.CPU + c.MilliCPU, Allocatable: n.AllCPU, Weight: 1},
		kubescore.Resource{Requested: (n.AllMemory - n.Memory + c.MemoryMiB) * BytesMiB, Allocatable: n.AllMemory * BytesMiB, Weight: 1}
}

// nonZeroResources is resources with the default requests of pods that state none.
func (b *Inventory) nonZeroResources(c *Class, i int32) (cpu, mem kubescore.Resource) {
	cpu, mem = b.resources(c, i)
	n := &b.Nodes[i]
	cpu.Requested += n.ExtraCPU + c.ExtraCPU
	mem.Requested += (n.ExtraMemory + c.ExtraMemory) * BytesMiB
	return cpu, mem
}

// mostAllocated is kube-scheduler's bin packing of CPU and memory.
func mostAllocated(b *Inventory, c *Class, i int32) (int64, uint64) {
	cpu, mem := b.nonZeroResources(c, i)
	return kubescore.MostAllocated(cpu, mem), b.Tightest(c, i)
}

// kubeResources is the sum of kube-scheduler's scores by resources: LeastAllocated and BalancedAllocation of CPU and
// memory, with equal weights.
func kubeResources(b *Inventory, c *Class, i int32) (int64, uint64) {
	cpu, mem := b.nonZeroResources(c, i)
	even := int64(0)
	if c.MilliCPU != 0 || c.MemoryMiB != 0 { // kube-scheduler skips BalancedAllocation for a pod without requests
		even, _ = balanced(b, c, i)
	}
	return kubescore.NodeResourcesFitWeight*kubescore.LeastAllocated(cpu, mem) + kubescore.BalancedAllocationWeight*even, b.Tightest(c, i)
}

// balanced is NodeResourcesBalancedAllocation of CPU and memory, which kube-scheduler skips for
// pods that request neither.
func balanced(b *Inventory, c *Class, i int32) (int64, uint64) {
	if c.MilliCPU == 0 && c.MemoryMiB == 0 {
		return 0, 0
	}
	cpu, mem := b.resources(c, i)
	return kubescore.BalancedAllocation(cpu, mem), 0
}

// score returns the function of a strategy of NodeResourcesFit.
func (s *Strategy) score() (scoreFunc, error) {
	s = cmp.Or(s, &Strategy{Type: "LeastAllocated", CPUWeight: 1, MemoryWeight: 1})
	var of func(r ...kubescore.Resource) int64
	switch s.Type {
	case "LeastAllocated":
		of = kubescore.LeastAllocated
	case "MostAllocated":
		of = kubescore.MostAllocated
	case "RequestedToCapacityRatio":
		for k, p := range s.Shape {
			if p.Utilization < 0 || p.Utilization > 100 || p.Score < 0 || p.Score > 10 || k > 0 && p.Utilization <= s.Shape[k-1].Utilization {
				return nil, fmt.Errorf("gpu: shape point %+v of RequestedToCapacityRatio, want utilizations that rise from 0 to 100 and scores from 0 to 10", p)
			}
		}
		if len(s.Shape) == 0 {
			return nil, fmt.Errorf("gpu: RequestedToCapacityRatio without a shape")
		}
		of = func(r ...kubescore.Resource) int64 { return kubescore.RequestedToCapacityRatio(s.Shape, r...) }
	default:
		return nil, fmt.Errorf("gpu: scoring strategy %q, want LeastAllocated, MostAllocated or RequestedToCapacityRatio", s.Type)
	}
	return func(b *Inventory, c *Class, i int32) (int64, uint64) {
		cpu, mem := b.nonZeroResources(c, i)
		cpu.Weight, mem.Weight = s.CPUWeight, s.MemoryWeight
		return of(cpu, mem), 0
	}, nil
}

// simon is the score of Alibaba's open-simulator: the largest part of an empty node's remaining resources that the pod
// takes, in percent. It prefers small nodes.
func simon(b *Inventory, c *Class, i int32) (int64, uint64) {
	n := &b.Nodes[i]
	if c.MilliCPU == 0 && c.MemoryMiB == 0 {
		return kubescore.MaxNodeScore, 0
	}
	part := func(want, all int64) float64 {
		switch left := all - want; {
		case left != 0:
			return float64(want) / float64(left)
		case want == 0:
			return 0
		}
		return 1
	}
	return int64(math.Round(kubescore.MaxNodeScore * max(part(c.MilliCPU, n.AllCPU), part(c.MemoryMiB, n.AllMemory)))), 0
}
