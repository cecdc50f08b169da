package gpushare

import (
	"math"
	"math/bits"
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// fgd is fragmentation gradient descent: it prefers the placement that adds the least fragmentation. For a pod that
// shares a device it tries each, and takes the first of equal scores.
func fgd(b *Inventory, c *Class, i int32) (score int64, devices uint64) {
	score, devices, _ = b.Descend(c, i)
	return score, devices
}

// Descend returns FGD's score of node i with its devices, and n·F after the placement.
func (b *Inventory) Descend(c *Class, i int32) (score int64, devices uint64, after int64) {
	n := &b.Nodes[i]
	cpu := n.CPU - c.MilliCPU
	sorted := b.SortedOf(i)
	if c.GPUs == 0 {
		after = b.Frag.Of(cpu, n.Model, sorted)
		return b.descent(i, after, cpu, sorted), 0, after
	}
	var buffer [cluster.MaxDevices]int32
	free := buffer[:n.Devices]
	if !c.Sharing() {
		copy(free, sorted)
		k := int32(len(free)) // whole devices are the first in descending order
		for k > 0 && free[k-1] < c.MilliGPU {
			k--
		}
		for j := k - c.GPUs; j < k; j++ {
			free[j] -= c.MilliGPU
		}
		sortDown(free)
		after = b.Frag.Of(cpu, n.Model, free)
		return b.descent(i, after, cpu, free), FirstFit(b.DevicesOf(i), c), after
	}
	score = noFit
	devs := b.DevicesOf(i)
	for d, f := range devs {
		if f < c.MilliGPU || slices.Contains(devs[:d], f) {
			continue
		}
		replace(free, sorted, f, f-c.MilliGPU)
		a := b.Frag.Of(cpu, n.Model, free)
		if s := b.descent(i, a, cpu, free); s > score {
			score, devices, after = s, 1<<d, a
		}
	}
	return score, devices, after
}

// descent returns FGD's score of a placement on node i that leaves n·F at after, and cpu and the devices free.
func (b *Inventory) descent(i int32, after, cpu int64, free []int32) int64 {
	n := &b.Nodes[i]
	if after != n.Frag {
		return score(b.Frag.Amount(n.Frag - after))
	}
	if n.referenceAt != n.Version {
		n.reference, n.referenceAt = b.Frag.reference(n.CPU, n.Model, b.SortedOf(i)), n.Version
	}
	return score(n.reference - b.Frag.reference(cpu, n.Model, free))
}

// After returns n·F of node i with a pod of class c on the given devices.
func (b *Inventory) After(c *Class, i int32, devices uint64) int64 {
	var buffer [cluster.MaxDevices]int32
	n := &b.Nodes[i]
	free := buffer[:n.Devices]
	copy(free, b.DevicesOf(i))
	for d := devices; d != 0; d &= d - 1 {
		free[lowest(d)] -= c.MilliGPU
	}
	sortDown(free)
	return b.Frag.Of(n.CPU-c.MilliCPU, n.Model, free)
}

// lowest returns the index of the lowest bit.
func lowest(devices uint64) int { return bits.TrailingZeros64(devices) }

// replace copies src, in descending order, to dst, with one element from replaced by the smaller to.
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

// score returns FGD's score of a placement that removes less thousandths of a GPU of fragmentation: 100 times the
// sigmoid of the amount in GPUs, truncated.
func score(less float64) int64 { return int64(Sigmoid(less/WholeGPU) * 100) }

// Sigmoid returns 1/(1+exp(−x)).
func Sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
