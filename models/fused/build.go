package fused

import (
	"slices"
	"unsafe"

	"github.com/kubernasium/kubernasium/models"
)

// build lays out the network in the order of [models.ParamLayout].
func (n *Network) build() {
	c := &cursor{params: n.params}
	if n.spec.Nodes != nil {
		n.nodes = newNodeRows(n.spec)
		if n.spec.Nodes.Edges != nil {
			n.graphs = newGraphs(n.spec)
		}
	}
	offsets := make([]int, len(n.spec.Heads)) // of heads in a row of outputs
	for i, h := range n.spec.Heads {
		if i > 0 {
			offsets[i] = offsets[i-1] + n.spec.HeadWidth(i-1)
		}
		if h.Free {
			n.free = append(n.free, &freeHead{value: c.take(), offset: offsets[i]})
		}
	}
	for _, l := range n.spec.LSTMs {
		n.lstms = append(n.lstms, &lstm{width: l.Hidden}) // their parameters come last
	}
	params := make([][]int, len(n.spec.Towers)) // of each tower and its heads
	work := make([]int, len(n.spec.Towers))     // products with parameters for a row
	take := func(tower, from int) {
		for ; from < c.next; from++ {
			params[tower] = append(params[tower], from)
			size := len(c.params[from].Value)
			if n.spec.PerNode(tower) {
				size *= n.spec.Nodes.N
			}
			n.rowWork += size
			work[tower] += size
		}
	}
	for i := range n.spec.Towers {
		from := c.next
		n.towers = append(n.towers, n.newTower(c, i))
		take(i, from)
	}
	for i, h := range n.spec.Heads {
		if !h.Free {
			from, tw := c.next, n.towers[h.Tower]
			tw.heads = append(tw.heads, n.newHead(c, h.Tower, offsets[i]))
			take(h.Tower, from)
		}
	}
	for i, l := range n.lstms {
		l.build(c, n, i)
	}
	n.transposes = c.transposes
	n.group(params)
	n.balance(work)
}

func (n *Network) newTower(c *cursor, i int) *tower {
	t := n.spec.Towers[i]
	tw := &tower{index: i, each: 1}
	if n.spec.PerNode(i) {
		tw.each = n.spec.Nodes.N
	}
	lstm, from := n.spec.Source(i)
	needsGradient := (lstm >= 0 || from >= 0) && !t.Detach // of its input
	tw.learns = needsGradient || len(t.Hidden) > 0
	if from >= 0 && needsGradient {
		n.towers[from].readers++
	}
	if !n.spec.PerNode(i) || t.Layer != "" { // otherwise the first layer reads nodes in place
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
	return new(newDense(c, needsGradient))
}

// newSource returns the first module of tower i.
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
		return memory{given{n.lstms[lstm].results}, n.lstms[lstm]}
	}
	return given{func() []float32 { return n.obs }}
}

// newHead returns a head of tower i.
func (n *Network) newHead(c *cursor, i, offset int) head {
	row := rowHead{dense: newDense(c, n.towers[i].learns), offset: offset}
	if !n.spec.PerNode(i) {
		return &row
	}
	n.widestHead = max(n.widestHead, row.out)
	return &nodeHead{rowHead: row, nodes: n.spec.Nodes.N}
}

// lstm returns LSTM i, or nil if i is -1.
func (n *Network) lstm(i int) *lstm {
	if i < 0 {
		return nil
	}
	return n.lstms[i]
}

// grow allocates memory for the given number of rows, if necessary.
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
