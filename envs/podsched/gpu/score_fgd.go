package gpu

import (
	"math"
	"math/bits"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

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

// score returns FGD's score of a change of the fragmentation by so many thousandths of a GPU:
// 100 times the sigmoid of what it takes away, in GPUs, truncated.
func score(less float64) int64 { return int64(sigmoid(less/wholeGPU) * 100) }

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
