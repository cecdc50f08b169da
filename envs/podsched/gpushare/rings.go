package gpushare

// Rings appends to dst an edge from each node to the next node of the same GPU model, from the last to the first, and
// then a mask of the edges, which excludes nodes without another of their model.
func Rings(dst []float32, nodes []NodeState) []float32 {
	var first, last [MaxModels + 1]int // by model, nodes without one first; plus 1, so that 0 is none
	next := make([]int, len(nodes))
	for i := range nodes {
		m := nodes[i].Model + 1
		if first[m] == 0 {
			first[m] = i + 1
		} else {
			next[last[m]-1] = i
		}
		last[m] = i + 1
	}
	for m, l := range last {
		if l > 0 {
			next[l-1] = first[m] - 1
		}
	}
	for i, j := range next {
		dst = append(dst, float32(i), float32(j))
	}
	for i, j := range next {
		exists := float32(1)
		if i == j {
			exists = 0
		}
		dst = append(dst, exists)
	}
	return dst
}
