package replay

// sumTree holds a priority of at least 0 for each slot and finds the slot at a given place in their
// cumulative sum. Node i is the sum of its children 2i and 2i+1; the leaves start at half the
// length. Each sum is computed from its children, so that rounding errors do not accumulate and the
// leaves alone determine the tree.
type sumTree struct {
	nodes []float64
	slots int
}

func newSumTree(slots int) sumTree {
	leaves := 1
	for leaves < slots {
		leaves *= 2
	}
	return sumTree{make([]float64, 2*leaves), slots}
}

func (t sumTree) total() float64 { return t.nodes[1] }

func (t sumTree) at(slot int) float64 { return t.nodes[len(t.nodes)/2+slot] }

// leaves returns the priorities of all slots, as memory of the tree.
func (t sumTree) leaves() []float64 { return t.nodes[len(t.nodes)/2:][:t.slots] }

func (t sumTree) set(slot int, priority float64) {
	i := len(t.nodes)/2 + slot
	t.nodes[i] = priority
	for i /= 2; i > 0; i /= 2 {
		t.nodes[i] = t.nodes[2*i] + t.nodes[2*i+1]
	}
}

// rebuild computes all sums from the leaves.
func (t sumTree) rebuild() {
	for i := len(t.nodes)/2 - 1; i > 0; i-- {
		t.nodes[i] = t.nodes[2*i] + t.nodes[2*i+1]
	}
}

// find returns the slot whose part of the cumulative sum holds x, for x in [0, total). It
// never returns a slot of priority 0 while there is another.
func (t sumTree) find(x float64) int {
	i := 1
	for i < len(t.nodes)/2 {
		i *= 2
		// Rounding may leave x at the end of the left part or beyond that of the right one.
		if left, right := t.nodes[i], t.nodes[i+1]; x >= left && right > 0 {
			x -= left
			i++
		}
	}
	return i - len(t.nodes)/2
}
