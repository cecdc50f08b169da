package gpu

import (
	"math"
	"slices"
)

// curve averages the allocation and the fragmentation over the arrivals of each percent.
type curve struct {
	size float64 // thousandths of a GPU of the cluster
	bins []bin   // by percent arrived
}

type bin struct {
	n           int
	alloc, frag float64 // sums
}

func newCurve(top int, milliGPU int64) *curve {
	return &curve{size: float64(milliGPU), bins: make([]bin, top+1)}
}

// add notes the state after the arrival of so many thousandths of a GPU in all. What is beyond
// the last percent is left out.
func (c *curve) add(arrived int64, b *board) {
	x := int(math.RoundToEven(float64(arrived) / c.size * 100))
	if x >= len(c.bins) {
		return
	}
	p := &c.bins[x]
	p.n++
	p.alloc += hundredths(float64(b.used.milliGPU) / c.size * 100)
	p.frag += hundredths(b.frag.amount(b.wasted) / c.size * 100)
}

// at returns the means at x percent. Where no arrival falls into the percent, its neighbours
// count; ok is false if there is none either.
func (c *curve) at(x int) (alloc, frag float64, ok bool) {
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

func (c *curve) alloc() []float64 { return c.points(func(a, _ float64) float64 { return a }) }
func (c *curve) frag() []float64  { return c.points(func(_, f float64) float64 { return f }) }

// points returns a value of each percent; where there is none, that of the percent before.
func (c *curve) points(value func(alloc, frag float64) float64) []float64 {
	points := make([]float64, 0, len(c.bins))
	last := 0.0
	for x := range c.bins {
		if a, f, ok := c.at(x); ok {
			last = value(a, f)
		}
		points = append(points, last)
	}
	return slices.Clip(points)
}

// hundredths rounds to two decimals.
func hundredths(x float64) float64 { return math.RoundToEven(x*100) / 100 }

// reset forgets all arrivals, for a cluster of so many thousandths of a GPU.
func (c *curve) reset(milliGPU int64) {
	clear(c.bins)
	c.size = float64(milliGPU)
}

// until returns the allocation at x percent, or at the last arrival before it; present, where so
// little has arrived.
func (c *curve) until(x int, arrived int64, present float64) float64 {
	if float64(arrived)/c.size*100 < float64(x)-0.5 || x >= len(c.bins) {
		return present
	}
	for ; x >= 0; x-- {
		if alloc, _, ok := c.at(x); ok {
			return alloc
		}
	}
	return present
}

func (c *curve) clone() *curve { return &curve{c.size, slices.Clone(c.bins)} }

// run returns what the curve and the cluster at its end report of a policy.
func (c *curve) run(b *board) *Run {
	return &Run{
		Alloc: c.alloc(), Frag: c.frag(), MilliGPU: b.used.milliGPU, MilliCPU: b.used.milliCPU, MemoryMiB: b.used.memoryMiB,
	}
}
