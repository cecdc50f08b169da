package gpushare

// The largest node of the trace, which scales the published policies.
const (
	MaxMilliCPU = 128000
	MaxMilliGPU = 8000
)

// A scoreFunc scores node i for a pod of class c, which fits there, and chooses its devices. Higher is better.
type scoreFunc func(b *Inventory, c *Class, i int32) (score int64, devices uint64)

// BestFit prefers the node with the least CPU and GPU left.
//
// The conversions round the products before the sum, as the reference does, on every machine.
func BestFit(b *Inventory, c *Class, i int32) (int64, uint64) {
	n := &b.Nodes[i]
	left := float64(float64(n.CPU-c.MilliCPU)/MaxMilliCPU*0.5) + float64(float64(n.GPU-c.TotalMilliGPU())/MaxMilliGPU*0.5)
	return int64((1 - left) * 100), b.Tightest(c, i)
}

// dotProd prefers the node whose free resources are least aligned with the request.
func dotProd(b *Inventory, c *Class, i int32) (int64, uint64) {
	n := &b.Nodes[i]
	dot := float64(float64(n.CPU)/MaxMilliCPU*(float64(c.MilliCPU)/MaxMilliCPU)) +
		float64(float64(n.GPU)/MaxMilliGPU*(float64(c.TotalMilliGPU())/MaxMilliGPU))
	return int64(100 * (1 - dot/2)), b.Tightest(c, i)
}

// gpuPacking prefers shared devices to free ones, and free devices of used nodes to those of
// idle nodes.
func gpuPacking(b *Inventory, c *Class, i int32) (int64, uint64) {
	if c.GPUs == 0 {
		return 0, 0
	}
	n := &b.Nodes[i]
	sorted := b.SortedOf(i)
	devices := b.Tightest(c, i)
	if n.GPU == int64(n.Devices)*WholeGPU {
		return int64(max(33-n.Devices, n.Devices)), devices
	}
	var whole, left int64
	need := c.GPUs
	for j := len(sorted) - 1; j >= 0 && need > 0; j-- {
		if f := sorted[j]; f >= c.MilliGPU {
			need--
			left += int64(f / 10)
			if f == WholeGPU {
				whole++
			}
		}
	}
	if whole > 0 {
		return max(50-whole, 33), devices
	}
	return max(100-left/10, 50), devices
}

// gpuClustering prefers nodes with pods of the same kind, and among those the fuller ones.
func gpuClustering(b *Inventory, c *Class, i int32) (int64, uint64) {
	if c.GPUs == 0 {
		return 0, 0
	}
	n := &b.Nodes[i]
	score := 25 * (MaxMilliGPU - n.GPU) / MaxMilliGPU
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
	return score, b.Tightest(c, i)
}

// anyNode scores all nodes alike.
func anyNode(b *Inventory, c *Class, i int32) (int64, uint64) { return 0, b.Tightest(c, i) }
