package gpushare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Lookahead continues from an inventory with WeightedFGD into given futures in which pods stay for ever. It places
// each pod where WeightedFGD would. Nodes in equal states share one entry of a table, which caches the scores of each
// kind of pod.
//
// A Lookahead belongs to one catalogue, inventory and reserve, and only reads them. It ignores requests beyond those of
// classes (Class.ExtraCPU), as WeightedFGD does.
type Lookahead struct {
	b       *Inventory
	cat     *Catalogue
	weights *weighing
	kinds   int

	maxStates int // of the table between two decisions

	states []lookState
	cells  []cell // by state, by kind
	of     map[lookState]int32
	one    Inventory // of a single node, to compute cells and moves

	start, nodes []lookNode // at the decision, and in the rollout
	cluster      Inventory  // of the rollout: only what Reserve reads
	full         []uint32   // by class: the rollout in which it was found to fit no node
	rollout      uint32
	timed        course
}

// lookDevices is the maximum number of devices of a node.
const lookDevices = 8

// maxLookStates is the value of maxStates for one decision after another.
const maxLookStates = 1 << 14

// lookNode is a node.
type lookNode struct {
	state  int32
	room   int32 // pods that it can still take
	memory int64 // free
}

// lookState holds the state of a node by which WeightedFGD scores it.
type lookState struct {
	cpu     int32
	model   int8
	devices int8
	free    [lookDevices]int16
}

// cell is the score of a kind of pod on a node in some state. It is small, since there are millions.
type cell struct {
	score   int8 // of FGD, plus cellScore; 0 if not computed yet
	devices uint8
	fit     int16 // of BestFit
}

const (
	cellNoFit = 1 // the kind does not fit
	cellScore = 2
)

// value returns WeightedFGD's value of the node, without the pressure on its model.
func (l *Lookahead) value(e cell) float64 {
	return float64(e.score-cellScore) + float64(l.weights.BestFit*float64(e.fit))
}

// NewLookahead returns the Lookahead for b by WeightedFGD with weights w. Classes are those of cat. Nodes with more
// than 8 devices and a weight of KubeResources are errors.
func NewLookahead(b *Inventory, r *Reserve, w Weights, cat *Catalogue) (*Lookahead, error) {
	if w.KubeResources != 0 {
		return nil, fmt.Errorf("gpu: look-ahead with the weight %v of KubeResources, want 0", w.KubeResources)
	}
	l := &Lookahead{maxStates: maxLookStates, b: b, cat: cat, weights: newWeighing(b, r, w), of: map[lookState]int32{}, full: make([]uint32, len(cat.Classes))}
	for i := range cat.Classes {
		l.kinds = max(l.kinds, int(cat.Classes[i].Kind)+1)
	}
	for i := range b.Nodes {
		if n := &b.Nodes[i]; n.Devices > lookDevices {
			return nil, fmt.Errorf("gpu: a node has %d devices, want at most %d to look ahead", n.Devices, lookDevices)
		}
	}
	l.one = Inventory{
		Nodes: make([]NodeState, 1), free: make([]int32, lookDevices), sorted: make([]int32, lookDevices),
		tags: make([]int32, lookDevices+1), FreeOf: make([]int64, len(b.FreeOf)), numTags: lookDevices + 1,
	}
	return l, nil
}

// begin reads the inventory.
func (l *Lookahead) begin() {
	if len(l.states) > l.maxStates {
		l.states, l.cells = l.states[:0], l.cells[:0]
		clear(l.of)
	}
	l.start = l.start[:0]
	for i := range l.b.Nodes {
		n := &l.b.Nodes[i]
		l.start = append(l.start, lookNode{l.intern(stateOf(n, l.b.DevicesOf(int32(i)))), n.MaxPods - n.Pods, n.Memory})
	}
}

func stateOf(n *NodeState, free []int32) lookState {
	s := lookState{cpu: int32(n.CPU), model: n.Model, devices: int8(n.Devices)}
	for d, f := range free {
		s.free[d] = int16(f)
	}
	return s
}

func (l *Lookahead) intern(s lookState) int32 {
	id, ok := l.of[s]
	if !ok {
		id = int32(len(l.states))
		l.of[s] = id
		l.states = append(l.states, s)
		l.cells = slices.Grow(l.cells, l.kinds)[:len(l.cells)+l.kinds]
		clear(l.cells[len(l.cells)-l.kinds:])
	}
	return id
}

// load sets l.one to a node in state s.
func (l *Lookahead) load(s *lookState) {
	n := &l.one.Nodes[0]
	*n = NodeState{CPU: int64(s.cpu), Model: s.model, Devices: int32(s.devices), MaxPods: math.MaxInt32}
	for d, f := range s.free[:s.devices] {
		l.one.free[d] = int32(f)
		n.GPU += int64(f)
	}
	copy(l.one.sorted, l.one.free[:s.devices])
	sortDown(l.one.sorted[:s.devices])
	l.one.Frag = l.b.Frag
	l.one.Clock++
	n.Version = l.one.Clock
	n.Frag = l.one.Frag.Of(n.CPU, n.Model, l.one.SortedOf(0))
}

// fill computes a cell.
func (l *Lookahead) fill(e *cell, s *lookState, c *Class) {
	e.score = cellNoFit
	l.load(s)
	any := *c
	any.MemoryMiB, any.ModelSet, any.Allowed = 0, ^uint64(0), nil // the caller checks these
	if !l.one.Fits(&any, 0) {
		return
	}
	score, devices := fgd(&l.one, &any, 0)
	fit, _ := BestFit(&l.one, &any, 0)
	e.score, e.devices, e.fit = int8(score+cellScore), uint8(devices), int16(fit)
}

// cell returns the cell of a pod of class c on a node in a state.
func (l *Lookahead) cell(state int32, c *Class) cell {
	e := &l.cells[int(state)*l.kinds+int(c.Kind)]
	if e.score == 0 {
		l.fill(e, &l.states[state], c)
	}
	return *e
}

// admits reports whether node i, of the given model, admits a pod of class c, apart from CPU and devices.
func (n *lookNode) admits(c *Class, i int, model int8) bool {
	return n.memory >= c.MemoryMiB && n.room > 0 && (c.GPUs == 0 || model >= 0 && c.ModelSet>>model&1 != 0) && (c.Allowed == nil || c.Allowed[i])
}

// choose returns WeightedFGD's node in the rollout, or -1.
func (l *Lookahead) choose(c *Class) int32 {
	pressure := l.pressure(c)
	node, best := int32(-1), math.Inf(-1)
	for i := range l.nodes {
		if v, ok := l.worth(c, int32(i), pressure); ok && v > best {
			node, best = int32(i), v
		}
	}
	return node
}

// chooseOf is choose among some nodes, in ascending order.
func (l *Lookahead) chooseOf(c *Class, nodes []int32) int32 {
	var pressure []float64
	node, best := int32(-1), math.Inf(-1)
	for _, i := range nodes {
		if !l.nodes[i].admits(c, int(i), l.states[l.nodes[i].state].model) {
			continue
		}
		if pressure == nil {
			pressure = l.pressure(c)
		}
		if v, ok := l.worth(c, i, pressure); ok && v > best {
			node, best = i, v
		}
	}
	return node
}

// worth returns WeightedFGD's value of node i in the rollout, unless a pod of class c does not fit it.
func (l *Lookahead) worth(c *Class, i int32, pressure []float64) (v float64, ok bool) {
	n := &l.nodes[i]
	model := l.states[n.state].model
	if !n.admits(c, int(i), model) {
		return 0, false
	}
	e := l.cell(n.state, c)
	if e.score == cellNoFit {
		return 0, false
	}
	v = l.value(e)
	if model >= 0 {
		v -= float64(l.weights.Pressure * pressure[model])
	}
	return v, true
}

// pressure returns the pressure on each model in the rollout.
func (l *Lookahead) pressure(c *Class) []float64 {
	w := l.weights
	if len(w.pressure) != len(l.cluster.FreeOf) {
		w.pressure = make([]float64, len(l.cluster.FreeOf))
	}
	w.reserve.Pressure(&l.cluster, c, w.pressure)
	return w.pressure
}

// place puts a pod on a node of the rollout, which it must fit.
func (l *Lookahead) place(c *Class, node int32) {
	n := &l.nodes[node]
	s := l.states[n.state]
	devices := l.cell(n.state, c).devices
	s.cpu -= int32(c.MilliCPU)
	for d := range s.free {
		if devices>>d&1 != 0 {
			s.free[d] -= int16(c.MilliGPU)
		}
	}
	n.state = l.intern(s)
	n.memory -= c.MemoryMiB
	n.room--
	l.cluster.Used.MilliGPU += c.TotalMilliGPU()
	if c.GPUs > 0 {
		l.cluster.FreeOf[s.model] -= c.TotalMilliGPU()
	}
}

// play places a pod of class c on a node and then those of the future. It returns the thousandths of
// a GPU allocated at its end, plus those allocated after the first pods of it, as many as each of marks says, in ascending order.
func (l *Lookahead) play(c *Class, node int32, future []int32, marks []int) (milliGPU int64) {
	l.nodes = append(l.nodes[:0], l.start...)
	l.cluster.Used, l.cluster.Size = l.b.Used, l.b.Size
	l.cluster.FreeOf = append(l.cluster.FreeOf[:0], l.b.FreeOf...)
	l.rollout++
	l.place(c, node)
	for k, id := range future {
		for ; len(marks) > 0 && marks[0] == k; marks = marks[1:] {
			milliGPU += l.cluster.Used.MilliGPU
		}
		if l.full[id] == l.rollout {
			continue
		}
		c := &l.cat.Classes[id]
		if node := l.choose(c); node >= 0 {
			l.place(c, node)
		} else {
			l.full[id] = l.rollout // nodes only fill up
		}
	}
	return milliGPU + l.cluster.Used.MilliGPU*int64(1+len(marks))
}

// candidate is a node for the pod to place.
type candidate struct {
	node    int32
	devices uint64
	state   lookState // with its devices in descending order
	memory  int64
	value   float64
}

// candidates appends to dst the k nodes of the highest value to WeightedFGD, its choice first; of nodes in equal states
// only one.
func (l *Lookahead) candidates(dst []candidate, c *Class, k int) []candidate {
	l.nodes = append(l.nodes[:0], l.start...)
	l.cluster.Used, l.cluster.Size = l.b.Used, l.b.Size
	l.cluster.FreeOf = append(l.cluster.FreeOf[:0], l.b.FreeOf...)
	pressure := l.pressure(c)
	first := len(dst)
	for i := range l.start {
		at := &l.start[i]
		n := candidate{node: int32(i), state: l.states[at.state], memory: at.memory}
		if !at.admits(c, i, n.state.model) {
			continue
		}
		e := l.cell(at.state, c)
		if e.score == cellNoFit {
			continue
		}
		n.devices, n.value = uint64(e.devices), l.value(e)
		slices.SortFunc(n.state.free[:], func(a, b int16) int { return int(b) - int(a) })
		if m := n.state.model; m >= 0 {
			n.value -= float64(l.weights.Pressure * pressure[m])
		}
		if !slices.ContainsFunc(dst[first:], func(o candidate) bool { return o.state == n.state && o.memory == n.memory && o.value >= n.value }) {
			dst = append(dst, n)
		}
	}
	slices.SortStableFunc(dst[first:], func(a, b candidate) int { return cmp.Compare(b.value, a.value) })
	return dst[:min(len(dst), first+k)]
}
