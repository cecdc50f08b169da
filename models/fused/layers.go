package fused

import (
	"slices"
	"unsafe"

	"github.com/kubernasium/kubernasium/models"
)

// A tower is a stack of layers with one activation function. It works on items: observations,
// or the nodes of observations.
type tower struct {
	layers []layer
	relu   bool
	heads  []int // that read it, in the order of the outputs
	nodes  bool  // its items are nodes
	in     int   // width of what it reads

	lstm, from int // index of the LSTM or node tower that it reads, or -1; one over nodes reads the LSTM beside them
	mean, max  bool
	backward   bool // a gradient reaches lstm or from
	readers    int  // towers that pool this one and send it a gradient

	rows   []float32 // (rows, nodes, in) if it reads nodes with an LSTM beside them by layers of messages
	pooled []float32 // (rows, in) if it reads a node tower
	argmax []int32   // (rows, width of that tower) nodes of the maxima
}

// A layer's weight is params[param] and its bias params[param+1].
type layer struct {
	kind           string // empty: dense; models.SAGE or models.GCN
	param, in, out int
	norm           int  // index of the weight of its layer norm, before the bias of that; 0 for none
	split          bool // it reads rows of nodes, globals and the LSTM beside them where they lie
	observed       int  // inputs, from the first on, that need no gradient: those of an observation

	// transposed is the weight of the other inputs as (out, in), for their gradient; empty if
	// there are none. root is the same of a SAGE layer's lin_r.
	transposed, root []float32

	y       []float32 // results after the activation, for an item of the last Forward each; empty for a head
	z       []float32 // what a SAGE or GCN layer gathers from neighbours, (items, in)
	xhat    []float32 // results before the affine part of the layer norm
	inverse []float32 // 1/σ of each item in the layer norm
}

// A head is a layer whose results lie in columns of the outputs from offset on.
type head struct {
	layer
	tower, offset int
	free          bool // params[param] is repeated in each row
}

// build lays out the network in the order of [models.ParamLayout].
func (n *Network) build() {
	if n.spec.Nodes != nil {
		n.globals, n.nodeInputs = n.spec.Globals(), n.spec.NodeInputs()
		n.graphs = newGraphs(n.spec)
	}
	param := 0
	offset := 0
	for i, h := range n.spec.Heads {
		hd := head{tower: h.Tower, offset: offset, free: h.Free}
		if h.Free {
			hd.layer = layer{param: param, out: h.Size}
			param++
		}
		n.heads = append(n.heads, hd)
		offset += n.spec.HeadWidth(i)
	}
	next := func(kind string, observed int) layer {
		shape := n.params[param].Shape
		l := layer{kind: kind, param: param, in: shape[0], out: shape[1], observed: observed}
		param += 2
		l.transposed = aligned((l.in - observed) * l.out)
		if kind == models.SAGE {
			param++
			l.root = aligned((l.in - observed) * l.out)
		}
		return l
	}
	for i, t := range n.spec.Towers {
		n.towers = append(n.towers, n.newTower(i))
		tw := &n.towers[i]
		for j := range t.Hidden {
			split := j == 0 && tw.nodes && t.Layer == ""
			observed := 0
			switch {
			case j == 0 && !tw.backward:
				observed = tw.in
			case split:
				observed = n.nodeInputs
			}
			l := next(t.Layer, observed)
			l.split = split
			if t.LayerNorm {
				l.norm = param
				param += 2
			}
			tw.layers = append(tw.layers, l)
		}
	}
	for i := range n.heads {
		hd := &n.heads[i]
		if hd.free {
			continue
		}
		t := &n.towers[hd.tower]
		observed := 0
		if len(t.layers) == 0 && !t.backward {
			observed = t.in
		}
		hd.layer = next("", observed)
		t.heads = append(t.heads, i)
	}
	for _, l := range n.spec.LSTMs {
		n.lstms = append(n.lstms, newLSTM(l, n.spec, n.params, &param))
	}
}

func (n *Network) newTower(i int) tower {
	t := n.spec.Towers[i]
	tw := tower{
		relu: t.Activation == models.ReLU, nodes: n.spec.PerNode(i), in: n.spec.TowerInputs(i),
		mean: t.Pool == models.Mean || t.Pool == models.MeanMax, max: t.Pool == models.Max || t.Pool == models.MeanMax,
	}
	tw.lstm, tw.from = n.spec.Source(i)
	tw.backward = (tw.lstm >= 0 || tw.from >= 0) && !t.Detach
	if tw.from >= 0 && tw.backward {
		n.towers[tw.from].readers++
	}
	return tw
}

// items returns how many items of the tower that many observations have.
func (n *Network) items(tw *tower, rows int) int {
	if tw.nodes {
		return rows * n.spec.Nodes.N
	}
	return rows
}

// width returns the width of the results of a tower.
func (tw *tower) width() int {
	if top := len(tw.layers) - 1; top >= 0 {
		return tw.layers[top].out
	}
	return tw.in
}

// grow makes room for that many rows.
func (n *Network) grow(rows int) {
	if rows*n.spec.Inputs <= len(n.obs) {
		return
	}
	n.obs = aligned(rows * n.spec.Inputs)
	n.outputs = aligned(rows * n.width)
	for t := range n.towers {
		tw := &n.towers[t]
		items := n.items(tw, rows)
		for l := range tw.layers {
			layer := &tw.layers[l]
			layer.y = aligned(items * layer.out)
			if layer.kind != "" {
				layer.z = aligned(items * layer.in)
			}
			if layer.norm > 0 {
				layer.xhat, layer.inverse = aligned(items*layer.out), make([]float32, items)
			}
		}
		if tw.nodes && tw.lstm >= 0 && !tw.layers[0].split {
			tw.rows = aligned(items * tw.in)
		}
		if tw.from >= 0 {
			tw.pooled = aligned(rows * tw.in)
			tw.argmax = make([]int32, rows*n.towers[tw.from].width())
		}
	}
	for i := range n.lstms {
		n.lstms[i].grow(rows)
	}
	if n.spec.Nodes != nil {
		n.growNodes(rows)
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
		for _, l := range tw.layers {
			w = max(w, l.out)
		}
	}
	return w
}

// transposeWeights brings the transposed weights up to date.
func (n *Network) transposeWeights() {
	update := func(l *layer) {
		if len(l.transposed) > 0 {
			n.k.transpose(l.transposed, n.params[l.param].Value[l.observed*l.out:], l.in-l.observed, l.out)
		}
		if len(l.root) > 0 {
			n.k.transpose(l.root, n.params[l.param+2].Value[l.observed*l.out:], l.in-l.observed, l.out)
		}
	}
	for t := range n.towers {
		for l := range n.towers[t].layers {
			update(&n.towers[t].layers[l])
		}
	}
	for h := range n.heads {
		update(&n.heads[h].layer)
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
