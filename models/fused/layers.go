package fused

import (
	"slices"
	"unsafe"

	"github.com/kubernasium/kubernasium/models"
)

// A tower is a stack over items: observations, or the nodes of observations.
type tower struct {
	stack
	heads []int // that read it, in the order of the outputs
	nodes bool  // its items are nodes
	each  int   // items of an observation
	in    int   // width of what it reads

	lstm, from int // index of the LSTM or node tower that it reads, or -1; one over nodes reads the LSTM beside them
	mean, max  bool
	backward   bool // a gradient reaches lstm or from
	readers    int  // towers that pool this one and send it a gradient

	rows   []float32 // (rows, nodes, in) if it reads nodes with an LSTM beside them by layers of messages
	pooled []float32 // (rows, in) if it reads a node tower
	argmax []int32   // (rows, width of that tower) nodes of the maxima
}

// A head is a dense layer whose results lie in columns of the outputs from offset on.
type head struct {
	dense
	tower, offset int
	free          bool // its bias is repeated in each row
}

// build lays out the network in the order of [models.ParamLayout].
func (n *Network) build() {
	c := &cursor{params: n.params}
	if n.spec.Nodes != nil {
		n.globals, n.nodeInputs = n.spec.Globals(), n.spec.NodeInputs()
		if n.spec.Nodes.Edges != nil {
			n.graphs = newGraphs(n.spec)
		}
	}
	n.lstms = make([]lstm, len(n.spec.LSTMs)) // their parameters are the last
	for i, l := range n.spec.LSTMs {
		n.lstms[i].out = l.Hidden
	}
	offset := 0
	for i, h := range n.spec.Heads {
		hd := head{tower: h.Tower, offset: offset, free: h.Free}
		if h.Free {
			hd.dense = dense{bias: c.take(), out: h.Size}
		}
		n.heads = append(n.heads, hd)
		offset += n.spec.HeadWidth(i)
	}
	for i, t := range n.spec.Towers {
		n.towers = append(n.towers, n.newTower(i))
		tw := &n.towers[i]
		for j, out := range t.Hidden {
			tw.push(n.newLayer(c, tw, t.Layer, j), out)
			if t.LayerNorm {
				tw.push(newNorm(c), out)
			}
			tw.push(activation{relu: t.Activation == models.ReLU}, out)
		}
	}
	for i := range n.heads {
		hd := &n.heads[i]
		if hd.free {
			continue
		}
		t := &n.towers[hd.tower]
		hd.dense = newDense(c, t.learns())
		t.heads = append(t.heads, i)
	}
	for i, l := range n.spec.LSTMs {
		n.lstms[i] = newLSTM(l, n.spec, n.params, &c.next)
	}
}

// newLayer returns layer j of a tower.
func (n *Network) newLayer(c *cursor, tw *tower, kind string, j int) module {
	needsGradient := j > 0 || tw.backward
	switch {
	case kind == models.SAGE:
		return newSAGE(c, n.graphs, needsGradient)
	case kind == models.GCN:
		return newGCN(c, n.graphs, needsGradient)
	case tw.nodes && j == 0:
		return newNodeDense(n, c, tw)
	}
	l := newDense(c, needsGradient)
	return &l
}

func (n *Network) newTower(i int) tower {
	t := n.spec.Towers[i]
	tw := tower{
		nodes: n.spec.PerNode(i), each: 1, in: n.spec.TowerInputs(i),
		mean: t.Pool == models.Mean || t.Pool == models.MeanMax, max: t.Pool == models.Max || t.Pool == models.MeanMax,
	}
	if tw.nodes {
		tw.each = n.spec.Nodes.N
	}
	tw.lstm, tw.from = n.spec.Source(i)
	tw.backward = (tw.lstm >= 0 || tw.from >= 0) && !t.Detach
	if tw.from >= 0 && tw.backward {
		n.towers[tw.from].readers++
	}
	return tw
}

// learns reports whether the results of a tower need a gradient.
func (tw *tower) learns() bool { return len(tw.stack) > 0 || tw.backward }

// top returns the last step of a tower, or nil.
func (tw *tower) top() *step {
	if len(tw.stack) == 0 {
		return nil
	}
	return &tw.stack[len(tw.stack)-1]
}

// width returns the width of the results of a tower.
func (tw *tower) width() int {
	if top := tw.top(); top != nil {
		return top.width
	}
	return tw.in
}

// reads reports whether the first layer reads rows of nodes with what is beside them.
func (tw *tower) reads() bool {
	if !tw.nodes {
		return false
	}
	_, where := tw.stack[0].module.(*nodeDense)
	return !where
}

// grow makes room for that many rows.
func (n *Network) grow(rows int) {
	if rows*n.spec.Inputs <= len(n.obs) {
		return
	}
	n.obs = aligned(rows * n.spec.Inputs)
	n.outputs = aligned(rows * n.width)
	if n.spec.Nodes != nil {
		n.growNodes(rows)
	}
	for i := range n.lstms {
		n.lstms[i].grow(rows)
	}
	for t := range n.towers {
		tw := &n.towers[t]
		if tw.reads() && tw.lstm >= 0 {
			tw.rows = aligned(rows * tw.each * tw.in)
		}
		if tw.from >= 0 {
			tw.pooled = aligned(rows * tw.in)
			tw.argmax = make([]int32, rows*n.towers[tw.from].width())
		}
		tw.grow(rows * tw.each)
	}
}

// widest returns the width of the widest row of gradients that a worker holds.
func (n *Network) widest() int {
	w := 0
	for t := range n.towers {
		tw := &n.towers[t]
		if tw.backward {
			w = max(w, tw.in)
		}
		for _, s := range tw.stack {
			w = max(w, s.width)
		}
	}
	return w
}

// prepare brings the transposed weights up to date.
func (n *Network) prepare() {
	for t := range n.towers {
		n.towers[t].prepare(n.k.kernels)
	}
	for h := range n.heads {
		n.heads[h].prepare(n.k.kernels)
	}
}

// aligned returns an array that starts at a cache line, so that no vector of a row of 16·i
// elements straddles two.
func aligned(size int) []float32 {
	const line = 64 / 4
	b := make([]float32, size+line-1)
	skip := 0
	if addr := uintptr(unsafe.Pointer(unsafe.SliceData(b))) % 64; addr != 0 {
		skip = int(64-addr) / 4
	}
	return slices.Clip(b[skip : skip+size])
}
