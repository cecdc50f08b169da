package gpushare

import (
	"math"
	"slices"
)

// Curve averages the allocation and the fragmentation over the arrivals within each percent.
type Curve struct {
	size float64 // thousandths of a GPU of the cluster
	bins []bin   // by percent arrived
}

type bin struct {
	n           int
	alloc, frag float64 // sums
}

// NewCurve returns the curve up to top percent for a cluster of milliGPU thousandths of a GPU.
func NewCurve(top int, milliGPU int64) *Curve {
	return &Curve{size: float64(milliGPU), bins: make([]bin, top+1)}
}

// Add adds the state after pods that request arrived thousandths of a GPU in total. It ignores arrivals beyond the last
// percent.
func (c *Curve) Add(arrived int64, b *Inventory) {
	x := int(math.RoundToEven(float64(arrived) / c.size * 100))
	if x >= len(c.bins) {
		return
	}
	p := &c.bins[x]
	p.n++
	p.alloc += hundredths(float64(b.Used.MilliGPU) / c.size * 100)
	p.frag += hundredths(b.Frag.Amount(b.Wasted) / c.size * 100)
}

// at returns the means at x percent. If no arrival falls into the percent, it uses the neighbours; ok is false if these
// have none either.
func (c *Curve) at(x int) (alloc, frag float64, ok bool) {
	sum := c.bins[x]
	if sum.n == 0 {
		for _, y := range []int{x - 1, x + 1} {
			if y >= 0 && y < len(c.bins) {
				sum.n += c.bins[y].n
				sum.alloc += c.bins[y].alloc
				sum.frag += c.bins[y].frag
			}
		}
	}
	if sum.n == 0 {
		return 0, 0, false
	}
	return hundredths(sum.alloc / float64(sum.n)), hundredths(sum.frag / float64(sum.n)), true
}

// points returns the values of each percent; a percent without them has those of the percent before.
func (c *Curve) points() (alloc, frag []float64) {
	alloc, frag = make([]float64, len(c.bins)), make([]float64, len(c.bins))
	for x := range c.bins {
		a, f, ok := c.at(x)
		if !ok && x > 0 {
			a, f = alloc[x-1], frag[x-1]
		}
		alloc[x], frag[x] = a, f
	}
	return alloc, frag
}

// hundredths rounds to two decimals.
func hundredths(x float64) float64 { return math.RoundToEven(x*100) / 100 }

// Reset forgets all arrivals, for a cluster of milliGPU thousandths of a GPU.
func (c *Curve) Reset(milliGPU int64) {
	clear(c.bins)
	c.size = float64(milliGPU)
}

// Until returns the allocation at x percent, or at the last arrival before it. It returns current if less than that has
// arrived.
func (c *Curve) Until(x int, arrived int64, current float64) float64 {
	if float64(arrived)/c.size*100 < float64(x)-0.5 || x >= len(c.bins) {
		return current
	}
	for ; x >= 0; x-- {
		if alloc, _, ok := c.at(x); ok {
			return alloc
		}
	}
	return current
}

// Clone returns an independent copy.
func (c *Curve) Clone() *Curve { return &Curve{c.size, slices.Clone(c.bins)} }

// Run returns the results of a policy from the curve and the final cluster.
func (c *Curve) Run(b *Inventory) *Run {
	alloc, frag := c.points()
	return &Run{Alloc: alloc, Frag: frag, MilliGPU: b.Used.MilliGPU, MilliCPU: b.Used.MilliCPU, MemoryMiB: b.Used.MemoryMiB}
}
