package gpushare

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Inventory holds the free resources of each node, in arrays for speed.
type Inventory struct {
	Nodes  []NodeState
	free   []int32 // thousandths of each device, node by node
	sorted []int32 // the same, in each node in descending order
	tags   []int32 // pods with GPUs on each node by their tag, numTags in each row
	counts []int32 // pods of each counter on each node, counter by counter

	FreeOf  []int64 // free thousandths of all devices, by model
	Frag    *Fragmenter
	numTags int32
	Clock   uint64 // of versions; it never decreases, so that entries cached in one episode are stale in the next
	Used    Totals
	Size    Totals
	Wasted  int64 // n·F of all nodes
}

// Totals are sums over nodes.
type Totals struct{ MilliGPU, MilliCPU, MemoryMiB int64 }

// NodeState holds the free resources of a node.
type NodeState struct {
	CPU, Memory       int64 // free
	GPU               int64 // free thousandths of all devices
	Frag              int64 // n·F
	Version           uint64
	Pods, MaxPods     int32
	first, Devices    int32 // its devices are Inventory.free[first:first+Devices]
	Model             int8  // -1 is none
	AllCPU, AllMemory int64 // allocatable

	ExtraCPU, ExtraMemory int64 // of its pods; see class

	reference   float64 // F by the reference's sums, as of version referenceAt
	referenceAt uint64
}

// Reset makes b the empty cluster of nodes, for pods of the classes of cat.
func (b *Inventory) Reset(nodes []Node, cat *Catalogue, f *Fragmenter) {
	m := &cat.Models
	b.counts = slices.Grow(b.counts[:0], cat.counters*len(nodes))[:cat.counters*len(nodes)]
	clear(b.counts)
	b.Frag, b.Used, b.Size, b.Wasted = f, Totals{}, Totals{}, 0
	b.Nodes, b.free, b.sorted, b.tags = b.Nodes[:0], b.free[:0], b.sorted[:0], b.tags[:0]
	b.FreeOf = slices.Grow(b.FreeOf[:0], len(m.names))[:len(m.names)]
	clear(b.FreeOf)
	b.numTags = 1
	for i := range nodes {
		b.numTags = max(b.numTags, int32(nodes[i].GPUs)+1)
	}
	for i := range nodes {
		n := &nodes[i]
		bn := NodeState{
			CPU: n.MilliCPU, Memory: n.MemoryMiB, GPU: int64(n.GPUs) * WholeGPU, AllCPU: n.MilliCPU, AllMemory: n.MemoryMiB,
			MaxPods: int32(n.MaxPods), first: int32(len(b.free)), Devices: int32(n.GPUs), Model: m.index(n.Model),
		}
		bn.MaxPods = cmp.Or(bn.MaxPods, DefaultMaxPods)
		for range n.GPUs {
			b.free, b.sorted = append(b.free, WholeGPU), append(b.sorted, WholeGPU)
		}
		b.tags = append(b.tags, make([]int32, b.numTags)...)
		b.Clock++
		bn.Version = b.Clock
		bn.Frag = f.Of(bn.CPU, bn.Model, b.sorted[bn.first:])
		b.Wasted += bn.Frag
		if bn.Model >= 0 {
			b.FreeOf[bn.Model] += bn.GPU
		}
		b.Size.MilliGPU += bn.GPU
		b.Size.MilliCPU += bn.CPU
		b.Size.MemoryMiB += bn.Memory
		b.Nodes = append(b.Nodes, bn)
	}
}

// DevicesOf returns the free thousandths of the devices of node i.
func (b *Inventory) DevicesOf(i int32) []int32 {
	n := &b.Nodes[i]
	return b.free[n.first:][:n.Devices:n.Devices]
}

// SortedOf returns the free thousandths of the devices of node i in descending order.
func (b *Inventory) SortedOf(i int32) []int32 {
	n := &b.Nodes[i]
	return b.sorted[n.first:][:n.Devices:n.Devices]
}

// Fits reports whether a pod of class c fits node i.
func (b *Inventory) Fits(c *Class, i int32) bool {
	n := &b.Nodes[i]
	if c.MilliCPU > n.CPU || c.MemoryMiB > n.Memory || n.Pods >= n.MaxPods || c.Allowed != nil && !c.Allowed[i] {
		return false
	}
	if c.GPUs == 0 {
		return true
	}
	return n.Model >= 0 && c.ModelSet>>n.Model&1 != 0 && c.GPUs <= n.Devices && b.sorted[n.first+c.GPUs-1] >= c.MilliGPU
}

// CouldFit reports whether a pod of class c would fit node i if the node were empty.
func (b *Inventory) CouldFit(c *Class, i int32) bool {
	n := &b.Nodes[i]
	if c.MilliCPU > n.AllCPU || c.MemoryMiB > n.AllMemory || n.MaxPods < 1 || c.Allowed != nil && !c.Allowed[i] {
		return false
	}
	return c.GPUs == 0 || n.Model >= 0 && c.ModelSet>>n.Model&1 != 0 && c.GPUs <= n.Devices
}

// CouldFitSome reports whether a pod of class c would fit some node of the empty cluster.
func (b *Inventory) CouldFitSome(c *Class) bool {
	for i := range b.Nodes {
		if b.CouldFit(c, int32(i)) {
			return true
		}
	}
	return false
}

// Place puts a pod of class c, which must fit, on the devices of node i.
func (b *Inventory) Place(c *Class, i int32, devices uint64) { b.change(c, i, devices, 1) }

// Remove removes a pod of class c from the devices of node i.
func (b *Inventory) Remove(c *Class, i int32, devices uint64) { b.change(c, i, devices, -1) }

func (b *Inventory) change(c *Class, i int32, devices uint64, sign int32) {
	n := &b.Nodes[i]
	s := int64(sign)
	n.CPU -= s * c.MilliCPU
	n.Memory -= s * c.MemoryMiB
	n.GPU -= s * c.TotalMilliGPU()
	n.ExtraCPU += s * c.ExtraCPU
	n.ExtraMemory += s * c.ExtraMemory
	n.Pods += sign
	for d := devices; d != 0; d &= d - 1 {
		b.free[n.first+int32(bits.TrailingZeros64(d))] -= sign * c.MilliGPU
	}
	if c.tag >= 0 {
		b.tags[i*b.numTags+c.tag] += sign
		b.FreeOf[n.Model] -= s * c.TotalMilliGPU()
		copy(b.SortedOf(i), b.DevicesOf(i))
		sortDown(b.SortedOf(i))
	}
	for _, k := range c.counted {
		b.counts[int(k)*len(b.Nodes)+int(i)] += sign
	}
	b.Used.MilliGPU += s * c.TotalMilliGPU()
	b.Used.MilliCPU += s * c.MilliCPU
	b.Used.MemoryMiB += s * c.MemoryMiB
	b.Clock++
	n.Version = b.Clock
	b.Wasted -= n.Frag
	n.Frag = b.Frag.Of(n.CPU, n.Model, b.SortedOf(i))
	b.Wasted += n.Frag
}

// sortDown sorts a few numbers in descending order.
func sortDown(x []int32) {
	for i := 1; i < len(x); i++ {
		for j := i; j > 0 && x[j] > x[j-1]; j-- {
			x[j], x[j-1] = x[j-1], x[j]
		}
	}
}

// Tightest returns the devices of node i that a pod of class c takes by best fit: the device with the least free that
// fits, the first of equal ones; for whole devices the first free ones.
func (b *Inventory) Tightest(c *Class, i int32) uint64 {
	if c.GPUs == 0 {
		return 0
	}
	free := b.DevicesOf(i)
	if !c.Sharing() {
		return FirstFit(free, c)
	}
	best := -1
	for d, f := range free {
		if f >= c.MilliGPU && (best < 0 || f < free[best]) {
			best = d
		}
	}
	return 1 << best
}

// loosest is Tightest with the device that has the most free.
func (b *Inventory) loosest(c *Class, i int32) uint64 {
	if c.GPUs == 0 || !c.Sharing() {
		return b.Tightest(c, i)
	}
	best := 0
	for d, f := range b.DevicesOf(i) {
		if f > b.DevicesOf(i)[best] {
			best = d
		}
	}
	return 1 << best
}

// FirstFit returns the first devices that fit, as many as c wants.
func FirstFit(free []int32, c *Class) uint64 {
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

// Refusal returns why a pod of class c does not fit node i, or "".
func (b *Inventory) Refusal(c *Class, i int32) string {
	n := &b.Nodes[i]
	var lacks []string
	if c.MilliCPU > n.CPU {
		lacks = append(lacks, "cpu")
	}
	if c.MemoryMiB > n.Memory {
		lacks = append(lacks, "memory")
	}
	if n.Pods >= n.MaxPods {
		lacks = append(lacks, "pods")
	}
	if c.GPUs > 0 {
		switch {
		case n.Model < 0 || n.Devices == 0:
			return "no GPU"
		case c.ModelSet>>n.Model&1 == 0:
			return "another GPU model"
		case c.GPUs > n.Devices || b.sorted[n.first+c.GPUs-1] < c.MilliGPU:
			lacks = append(lacks, "gpu")
		}
	}
	if lacks == nil {
		return ""
	}
	return "insufficient " + strings.Join(lacks, ", ")
}

// Clone returns a copy that shares only read-only data.
func (b *Inventory) Clone() Inventory {
	c := *b
	c.Nodes, c.free, c.sorted = slices.Clone(b.Nodes), slices.Clone(b.free), slices.Clone(b.sorted)
	c.tags, c.counts, c.FreeOf = slices.Clone(b.tags), slices.Clone(b.counts), slices.Clone(b.FreeOf)
	return c
}

// without returns n·F of node i without a pod of class c on the given devices.
func (b *Inventory) without(c *Class, i int32, devices uint64) int64 {
	free := slices.Clone(b.DevicesOf(i))
	for d := devices; d != 0; d &= d - 1 {
		free[lowest(d)] += c.MilliGPU
	}
	sortDown(free)
	n := &b.Nodes[i]
	return b.Frag.Of(n.CPU+c.MilliCPU, n.Model, free)
}

// DeviceList lists the bits set.
func DeviceList(devices uint64) []int {
	var list []int
	for d := devices; d != 0; d &= d - 1 {
		list = append(list, lowest(d))
	}
	return list
}

// FormatDevices joins the indices of devices by dashes, as the annotation of a pod does.
func FormatDevices(devices uint64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(DeviceList(devices)), " ", "-"), "[]")
}
