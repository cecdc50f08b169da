package gpu

// The largest node of the trace, to which the published policies scale.
const (
	maxMilliCPU = 128000
	maxMilliGPU = 8000
)

// A scoreFunc scores node i for a pod of class c, which fits there, and chooses the devices
// that it would take. Higher is better.
type scoreFunc func(b *board, c *class, i int32) (score int64, devices uint64)

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

// anyNode makes no difference between nodes.
func anyNode(b *board, c *class, i int32) (int64, uint64) { return 0, b.tightest(c, i) }
