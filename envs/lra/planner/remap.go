package planner

// Remap replaces a mask, as in the earlier project. In seen it shows each full node as a node with room, and in to the
// node that a choice of node i leads to. The first full node becomes the first with room, the second the second, and so
// on in turn. Remap returns false, and changes nothing, if all nodes are full.
func Remap(nodes interface{ Slots(i int) int }, x, seen Placement, to []int) bool {
	full := func(i int) bool { return x[i].Total() >= nodes.Slots(i) }
	next := 0
	for next < len(x) && full(next) {
		next++
	}
	if next == len(x) {
		return false
	}
	for i, s := range x {
		seen[i], to[i] = s, i
		if !full(i) {
			continue
		}
		seen[i], to[i] = x[next], next
		for next = (next + 1) % len(x); full(next); {
			next = (next + 1) % len(x)
		}
	}
	return true
}
