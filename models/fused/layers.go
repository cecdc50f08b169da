package fused

import (
	"slices"
	"unsafe"

	"github.com/kubernasium/kubernasium/models"
)

// A tower is a stack over items: observations, or the nodes of observations. It starts with what
// it reads.
type tower struct {
	stack
	index int   // in Network.towers
	heads []int // that read it, in the order of the outputs
	nodes bool  // its items are nodes
	each  int   // items of an observation

	learns  bool // its results need a gradient
	readers int  // towers that pool this one and send it a gradient
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
		n.nodes = newNodeRows(n.spec)
		if n.spec.Nodes.Edges != nil {
			n.graphs = newGraphs(n.spec)
		}
	}
	for _, l := range n.spec.LSTMs {
		n.lstms = append(n.lstms, &lstm{out: l.Hidden}) // their parameters are the last
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
	for i := range n.spec.Towers {
		n.towers = append(n.towers, n.newTower(c, i))
	}
	for i := range n.heads {
		hd := &n.heads[i]
		if hd.free {
			continue
		}
		t := n.towers[hd.tower]
		hd.dense = newDense(c, t.learns)
		t.heads = append(t.heads, i)
	}
	for i, l := range n.spec.LSTMs {
		*n.lstms[i] = *newLSTM(l, n.spec, n.params, &c.next)
	}
}

func (n *Network) newTower(c *cursor, i int) *tower {
	t := n.spec.Towers[i]
	tw := &tower{index: i, nodes: n.spec.PerNode(i), each: 1}
	if tw.nodes {
		tw.each = n.spec.Nodes.N
	}
	lstm, from := n.spec.Source(i)
	needsGradient := (lstm >= 0 || from >= 0) && !t.Detach // what it reads does
	tw.learns = needsGradient || len(t.Hidden) > 0
	if from >= 0 && needsGradient {
		n.towers[from].readers++
	}
	if !tw.nodes || t.Layer != "" { // else the first layer reads nodes where they lie
		tw.push(n.newSource(i), n.spec.TowerInputs(i))
		if needsGradient {
			n.widest = max(n.widest, n.spec.TowerInputs(i))
		}
	}
	for _, out := range t.Hidden {
		if len(tw.stack) == 0 {
			tw.push(newNodeDense(c, n, n.lstm(lstm), needsGradient), out)
		} else {
			tw.push(n.newLayer(c, t.Layer, needsGradient), out)
		}
		if t.LayerNorm {
			tw.push(newNorm(c), out)
		}
		tw.push(activation{relu: t.Activation == models.ReLU}, out)
		n.widest = max(n.widest, out)
		needsGradient = true
	}
	return tw
}

func (n *Network) newLayer(c *cursor, kind string, needsGradient bool) module {
	switch kind {
	case models.SAGE:
		return newSAGE(c, n.graphs, needsGradient)
	case models.GCN:
		return newGCN(c, n.graphs, needsGradient)
	}
	l := newDense(c, needsGradient)
	return &l
}

// newSource returns what tower i reads.
func (n *Network) newSource(i int) module {
	lstm, from := n.spec.Source(i)
	switch {
	case from >= 0:
		nodes := n.towers[from]
		return &pool{from: nodes, width: nodes.width(), poolings: newPoolings(n.spec.Towers[i].Pool, nodes.each, nodes.width())}
	case n.spec.PerNode(i) && lstm >= 0:
		return &beside{nodes: n.nodes, lstm: n.lstms[lstm]}
	case n.spec.PerNode(i):
		return given{func() []float32 { return n.nodes.rows }}
	case lstm >= 0:
		return memory{n.lstms[lstm]}
	}
	return given{func() []float32 { return n.obs }}
}

// lstm returns that of an index, or nil for -1.
func (n *Network) lstm(i int) *lstm {
	if i < 0 {
		return nil
	}
	return n.lstms[i]
}

// top returns the last step of a tower.
func (tw *tower) top() *step { return &tw.stack[len(tw.stack)-1] }

// width returns the width of the results of a tower.
func (tw *tower) width() int { return tw.top().width }

// grow makes room for that many rows.
func (n *Network) grow(rows int) {
	if rows*n.spec.Inputs <= len(n.obs) {
		return
	}
	n.obs = aligned(rows * n.spec.Inputs)
	n.outputs = aligned(rows * n.width)
	if n.nodes != nil {
		n.nodes.grow(rows)
	}
	if n.graphs != nil {
		n.graphs.grow(rows)
	}
	for _, l := range n.lstms {
		l.grow(rows)
	}
	for _, tw := range n.towers {
		tw.grow(rows * tw.each)
	}
}

// prepare brings the transposed weights up to date.
func (n *Network) prepare() {
	for _, tw := range n.towers {
		tw.prepare(n.k.kernels)
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
