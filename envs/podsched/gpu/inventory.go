package gpu

import (
	"math/bits"
	"slices"
	"strings"
)

// board holds what is free on each node, in arrays for the speed of policies.
type board struct {
	nodes  []boardNode
	free   []int32 // thousandths of each device, node by node
	sorted []int32 // the same, in each node in descending order
	tags   []int32 // pods with GPUs on each node by their tag, numTags in each row
	counts []int32 // pods of each counter on each node, counter by counter

	freeOf  []int64 // free thousandths of all devices, by model
	frag    *fragmenter
	numTags int32
	clock   uint64 // of versions; never goes back, so that what is cached for one episode is stale in the next
	used    totals
	size    totals
	wasted  int64 // n·F of all nodes
}

// totals are sums over nodes.
type totals struct{ milliGPU, milliCPU, memoryMiB int64 }

type boardNode struct {
	cpu, mem       int64 // free
	gpu            int64 // free thousandths of all devices
	frag           int64 // n·F
	version        uint64
	pods, maxPods  int32
	first, devices int32 // its devices are board.free[first:first+devices]
	model          int8  // -1 is none
	allCPU, allMem int64 // allocatable

	extraCPU, extraMem int64 // of its pods; see class

	reference   float64 // F by the reference's sums, as of version referenceAt
	referenceAt uint64
}

// reset makes b the empty cluster of nodes, for pods of the classes of cat.
func (b *board) reset(nodes []Node, cat *catalogue, f *fragmenter) {
	m := &cat.models
	b.counts = slices.Grow(b.counts[:0], cat.counters*len(nodes))[:cat.counters*len(nodes)]
	clear(b.counts)
	b.frag, b.used, b.size, b.wasted = f, totals{}, totals{}, 0
	b.nodes, b.free, b.sorted, b.tags = b.nodes[:0], b.free[:0], b.sorted[:0], b.tags[:0]
	b.freeOf = slices.Grow(b.freeOf[:0], len(m.names))[:len(m.names)]
	clear(b.freeOf)
	b.numTags = 1
	for i := range nodes {
		b.numTags = max(b.numTags, int32(nodes[i].GPUs)+1)
	}
	for i := range nodes {
		n := &nodes[i]
		bn := boardNode{
			cpu: n.MilliCPU, mem: n.MemoryMiB, gpu: int64(n.GPUs) * wholeGPU, allCPU: n.MilliCPU, allMem: n.MemoryMiB,
			maxPods: int32(n.MaxPods), first: int32(len(b.free)), devices: int32(n.GPUs), model: m.index(n.Model),
		}
		if bn.maxPods == 0 {
			bn.maxPods = DefaultMaxPods
		}
		for range n.GPUs {
			b.free, b.sorted = append(b.free, wholeGPU), append(b.sorted, wholeGPU)
		}
		for range b.numTags {
			b.tags = append(b.tags, 0)
		}
		b.clock++
		bn.version = b.clock
		bn.frag = f.of(bn.cpu, bn.model, b.sorted[bn.first:])
		b.wasted += bn.frag
		if bn.model >= 0 {
			b.freeOf[bn.model] += bn.gpu
		}
		b.size.milliGPU += bn.gpu
		b.size.milliCPU += bn.cpu
		b.size.memoryMiB += bn.mem
		b.nodes = append(b.nodes, bn)
	}
}

// devicesOf returns the free thousandths of the devices of node i.
func (b *board) devicesOf(i int32) []int32 {
	n := &b.nodes[i]
	return b.free[n.first:][:n.devices:n.devices]
}

// sortedOf returns them in descending order.
func (b *board) sortedOf(i int32) []int32 {
	n := &b.nodes[i]
	return b.sorted[n.first:][:n.devices:n.devices]
}

// fits reports whether a pod of class c fits node i.
func (b *board) fits(c *class, i int32) bool {
	n := &b.nodes[i]
	if c.MilliCPU > n.cpu || c.MemoryMiB > n.mem || n.pods >= n.maxPods || c.allowed != nil && !c.allowed[i] {
		return false
	}
	if c.GPUs == 0 {
		return true
	}
	return n.model >= 0 && c.models>>n.model&1 != 0 && c.GPUs <= n.devices && b.sorted[n.first+c.GPUs-1] >= c.MilliGPU
}

// couldFit reports whether a pod of class c would fit node i if the node were empty.
func (b *board) couldFit(c *class, i int32) bool {
	n := &b.nodes[i]
	if c.MilliCPU > n.allCPU || c.MemoryMiB > n.allMem || n.maxPods < 1 || c.allowed != nil && !c.allowed[i] {
		return false
	}
	return c.GPUs == 0 || n.model >= 0 && c.models>>n.model&1 != 0 && c.GPUs <= n.devices
}

// place puts a pod of class c on the devices of node i, where it fits.
func (b *board) place(c *class, i int32, devices uint64) { b.change(c, i, devices, 1) }

// remove takes it away again.
func (b *board) remove(c *class, i int32, devices uint64) { b.change(c, i, devices, -1) }

func (b *board) change(c *class, i int32, devices uint64, sign int32) {
	n := &b.nodes[i]
	s := int64(sign)
	n.cpu -= s * c.MilliCPU
	n.mem -= s * c.MemoryMiB
	n.gpu -= s * c.TotalMilliGPU()
	n.extraCPU += s * c.extraCPU
	n.extraMem += s * c.extraMem
	n.pods += sign
	for d := devices; d != 0; d &= d - 1 {
		b.free[n.first+int32(bits.TrailingZeros64(d))] -= sign * c.MilliGPU
	}
	if c.tag >= 0 {
		b.tags[i*b.numTags+c.tag] += sign
		b.freeOf[n.model] -= s * c.TotalMilliGPU()
		copy(b.sortedOf(i), b.devicesOf(i))
		sortDown(b.sortedOf(i))
	}
	for _, k := range c.counted {
		b.counts[int(k)*len(b.nodes)+int(i)] += sign
	}
	b.used.milliGPU += s * c.TotalMilliGPU()
	b.used.milliCPU += s * c.MilliCPU
	b.used.memoryMiB += s * c.MemoryMiB
	b.clock++
	n.version = b.clock
	b.wasted -= n.frag
	n.frag = b.frag.of(n.cpu, n.model, b.sortedOf(i))
	b.wasted += n.frag
}

// sortDown sorts a few numbers in descending order.
func sortDown(x []int32) {
	for i := 1; i < len(x); i++ {
		for j := i; j > 0 && x[j] > x[j-1]; j-- {
			x[j], x[j-1] = x[j-1], x[j]
		}
	}
}

// tightest returns the devices of node i that a pod of class c takes by best fit: the one with
// the least free that fits, of equal ones the first; for whole devices the first that are free.
func (b *board) tightest(c *class, i int32) uint64 {
	if c.GPUs == 0 {
		return 0
	}
	free := b.devicesOf(i)
	if !c.sharing() {
		return firstFit(free, c)
	}
	best := -1
	for d, f := range free {
		if f >= c.MilliGPU && (best < 0 || f < free[best]) {
			best = d
		}
	}
	return 1 << best
}

// loosest is tightest with the device that has the most free.
func (b *board) loosest(c *class, i int32) uint64 {
	if c.GPUs == 0 || !c.sharing() {
		return b.tightest(c, i)
	}
	best := 0
	for d, f := range b.devicesOf(i) {
		if f > b.devicesOf(i)[best] {
			best = d
		}
	}
	return 1 << best
}

// firstFit returns the first devices that fit, as many as c wants.
func firstFit(free []int32, c *class) uint64 {
	var devices uint64
	left := c.GPUs
	for d, f := range free {
		if left > 0 && f >= c.MilliGPU {
			devices |= 1 << d
			left--
		}
	}
	return devices
}

// refusal says why a pod of class c does not fit node i, or "".
func (b *board) refusal(c *class, i int32) string {
	n := &b.nodes[i]
	var lacks []string
	if c.MilliCPU > n.cpu {
		lacks = append(lacks, "cpu")
	}
	if c.MemoryMiB > n.mem {
		lacks = append(lacks, "memory")
	}
	if n.pods >= n.maxPods {
		lacks = append(lacks, "pods")
	}
	if c.GPUs > 0 {
		switch {
		case n.model < 0 || n.devices == 0:
			return "no GPU"
		case c.models>>n.model&1 == 0:
			return "another GPU model"
		case c.GPUs > n.devices || b.sorted[n.first+c.GPUs-1] < c.MilliGPU:
			lacks = append(lacks, "gpu")
		}
	}
	if lacks == nil {
		return ""
	}
	return "insufficient " + strings.Join(lacks, ", ")
}

// clone returns a copy that shares what boards do not change.
func (b *board) clone() board {
	c := *b
	c.nodes, c.free, c.sorted = slices.Clone(b.nodes), slices.Clone(b.free), slices.Clone(b.sorted)
	c.tags, c.counts, c.freeOf = slices.Clone(b.tags), slices.Clone(b.counts), slices.Clone(b.freeOf)
	return c
}

// without returns n·F of node i without a pod of class c on the given devices.
func (b *board) without(c *class, i int32, devices uint64) int64 {
	free := slices.Clone(b.devicesOf(i))
	for d := devices; d != 0; d &= d - 1 {
		free[lowest(d)] += c.MilliGPU
	}
	sortDown(free)
	n := &b.nodes[i]
	return b.frag.of(n.cpu+c.MilliCPU, n.model, free)
}

// deviceList lists the bits set.
func deviceList(devices uint64) []int {
	var list []int
	for d := devices; d != 0; d &= d - 1 {
		list = append(list, lowest(d))
	}
	return list
}
