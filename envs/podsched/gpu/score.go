package gpu

import (
	"math"
	"math/bits"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// The largest node of the trace, to which the published policies scale.
const (
	maxMilliCPU = 128000
	maxMilliGPU = 8000
)

// A scoreFunc scores node i for a pod of class c, which fits there, and chooses the devices
// that it would take. Higher is better.
type scoreFunc func(b *board, c *class, i int32) (score int64, devices uint64)

// fgd is fragmentation gradient descent: the placement that adds the least fragmentation. A pod
// that shares a device tries each; of equal scores the first device is taken.
func fgd(b *board, c *class, i int32) (score int64, devices uint64) {
	score, devices, _ = b.descend(c, i)
	return score, devices
}

// descend returns FGD's score of node i with its devices, and what n·F would be after.
func (b *board) descend(c *class, i int32) (score int64, devices uint64, after int64) {
	n := &b.nodes[i]
	cpu := n.cpu - c.MilliCPU
	sorted := b.sortedOf(i)
	if c.GPUs == 0 {
		after = b.frag.of(cpu, n.model, sorted)
		return b.descent(i, after, cpu, sorted), 0, after
	}
	var buffer [cluster.MaxDevices]int32
	free := buffer[:n.devices]
	if !c.sharing() {
		copy(free, sorted)
		k := int32(len(free)) // whole devices: the first of those in descending order
		for k > 0 && free[k-1] < c.MilliGPU {
			k--
		}
		for j := k - c.GPUs; j < k; j++ {
			free[j] -= c.MilliGPU
		}
		sortDown(free)
		after = b.frag.of(cpu, n.model, free)
		return b.descent(i, after, cpu, free), firstFit(b.devicesOf(i), c), after
	}
	score = noFit
	devs := b.devicesOf(i)
	for d, f := range devs {
		if f < c.MilliGPU || seen(devs[:d], f) {
			continue
		}
		replace(free, sorted, f, f-c.MilliGPU)
		a := b.frag.of(cpu, n.model, free)
		if s := b.descent(i, a, cpu, free); s > score {
			score, devices, after = s, 1<<d, a
		}
	}
	return score, devices, after
}

// descent returns FGD's score of a placement on node i that leaves cpu and the devices free, and
// n·F at after.
func (b *board) descent(i int32, after, cpu int64, free []int32) int64 {
	n := &b.nodes[i]
	if after != n.frag {
		return score(b.frag.amount(n.frag - after))
	}
	if n.referenceAt != n.version {
		n.reference, n.referenceAt = b.frag.reference(n.cpu, n.model, b.sortedOf(i)), n.version
	}
	return score(n.reference - b.frag.reference(cpu, n.model, free))
}

// after returns n·F of node i with a pod of class c on the given devices.
func (b *board) after(c *class, i int32, devices uint64) int64 {
	var buffer [cluster.MaxDevices]int32
	n := &b.nodes[i]
	free := buffer[:n.devices]
	copy(free, b.devicesOf(i))
	for d := devices; d != 0; d &= d - 1 {
		free[lowest(d)] -= c.MilliGPU
	}
	sortDown(free)
	return b.frag.of(n.cpu-c.MilliCPU, n.model, free)
}

// lowest returns the index of the lowest bit.
func lowest(devices uint64) int { return bits.TrailingZeros64(devices) }

func seen(devices []int32, f int32) bool {
	for _, g := range devices {
		if g == f {
			return true
		}
	}
	return false
}

// replace copies the descending src to dst with one element from replaced by the smaller to.
func replace(dst, src []int32, from, to int32) {
	k := 0
	for src[k] != from {
		dst[k] = src[k]
		k++
	}
	for k+1 < len(src) && src[k+1] > to {
		dst[k] = src[k+1]
		k++
	}
	dst[k] = to
	copy(dst[k+1:], src[k+1:])
}

// bestFit prefers the node with the least left of CPU and GPU.
//
// The products are rounded before they are added (so says the conversion), as the reference
// does, on every machine.
func bestFit(b *board, c *class, i int32) (int64, uint64) {
	n := &b.nodes[i]
	left := float64(float64(n.cpu-c.MilliCPU)/maxMilliCPU*0.5) + float64(float64(n.gpu-c.TotalMilliGPU())/maxMilliGPU*0.5)
	return int64((1 - left) * 100), b.tightest(c, i)
}

// dotProd prefers the node whose free resources are least aligned with the request.
func dotProd(b *board, c *class, i int32) (int64, uint64) {
	n := &b.nodes[i]
	dot := float64(float64(n.cpu)/maxMilliCPU*(float64(c.MilliCPU)/maxMilliCPU)) +
		float64(float64(n.gpu)/maxMilliGPU*(float64(c.TotalMilliGPU())/maxMilliGPU))
	return int64(100 * (1 - dot/2)), b.tightest(c, i)
}

// gpuPacking prefers shared devices to free ones, and free devices of used nodes to those of
// idle nodes.
func gpuPacking(b *board, c *class, i int32) (int64, uint64) {
	if c.GPUs == 0 {
		return 0, 0
	}
	n := &b.nodes[i]
	sorted := b.sortedOf(i)
	devices := b.tightest(c, i)
	if n.gpu == int64(n.devices)*wholeGPU {
		return int64(max(33-n.devices, n.devices)), devices
	}
	var whole, left int64
	need := c.GPUs
	for j := len(sorted) - 1; j >= 0 && need > 0; j-- {
		if f := sorted[j]; f >= c.MilliGPU {
			need--
			left += int64(f / 10)
			if f == wholeGPU {
				whole++
			}
		}
	}
	if whole > 0 {
		return max(50-whole, 33), devices
	}
	return max(100-left/10, 50), devices
}

// gpuClustering prefers nodes with pods of the same kind, and among those the fuller.
func gpuClustering(b *board, c *class, i int32) (int64, uint64) {
	if c.GPUs == 0 {
		return 0, 0
	}
	n := &b.nodes[i]
	score := 25 * (maxMilliGPU - n.gpu) / maxMilliGPU
	same, others := false, false
	for tag, pods := range b.tags[i*b.numTags:][:b.numTags] {
		if pods > 0 {
			same = same || int32(tag) == c.tag
			others = others || int32(tag) != c.tag
		}
	}
	switch {
	case same && !others:
		score += 75
	case same:
		score += 50
	case !others:
		score += 25
	}
	return score, b.tightest(c, i)
}

// resources returns CPU and memory of node i with a pod of class c on it.
func (b *board) resources(c *class, i int32) (cpu, mem kubescore.Resource) {
	n := &b.nodes[i]
	return kubescore.Resource{Requested: n.allCPU - n.cpu + c.MilliCPU, Allocatable: n.allCPU, Weight: 1},
		kubescore.Resource{Requested: (n.allMem - n.mem + c.MemoryMiB) * bytesMiB, Allocatable: n.allMem * bytesMiB, Weight: 1}
}

// nonZeroResources is resources with what pods that state no requests count for.
func (b *board) nonZeroResources(c *class, i int32) (cpu, mem kubescore.Resource) {
	cpu, mem = b.resources(c, i)
	n := &b.nodes[i]
	cpu.Requested += n.extraCPU + c.extraCPU
	mem.Requested += (n.extraMem + c.extraMem) * bytesMiB
	return cpu, mem
}

// mostAllocated is kube-scheduler's bin packing of CPU and memory.
func mostAllocated(b *board, c *class, i int32) (int64, uint64) {
	cpu, mem := b.nonZeroResources(c, i)
	return kubescore.MostAllocated(cpu, mem), b.tightest(c, i)
}

// kubeResources is what kube-scheduler scores by resources: LeastAllocated and
// BalancedAllocation of CPU and memory, with equal weights.
func kubeResources(b *board, c *class, i int32) (int64, uint64) {
	cpu, mem := b.nonZeroResources(c, i)
	even := int64(0)
	if c.MilliCPU != 0 || c.MemoryMiB != 0 { // of a pod without requests kube-scheduler skips BalancedAllocation
		even, _ = balanced(b, c, i)
	}
	return kubescore.NodeResourcesFitWeight*kubescore.LeastAllocated(cpu, mem) + kubescore.BalancedAllocationWeight*even, b.tightest(c, i)
}

// simon is the score of Alibaba's open-simulator: the largest part of what an empty node would have
// left that the pod takes, in percent. It prefers small nodes.
func simon(b *board, c *class, i int32) (int64, uint64) {
	n := &b.nodes[i]
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
	return int64(math.Round(kubescore.MaxNodeScore * max(part(c.MilliCPU, n.allCPU), part(c.MemoryMiB, n.allMem)))), 0
}

// anyNode makes no difference between nodes.
func anyNode(b *board, c *class, i int32) (int64, uint64) { return 0, b.tightest(c, i) }
