package fused

import (
	"math"

	"github.com/kubernasium/kubernasium/models"
)

// graphs holds the edges of the observations of a batch, or the fixed ones once, as rows of
// in-neighbours in compressed form.
type graphs struct {
	nodes, edges int // of one observation, edges at most
	fixed        bool
	begin        []int32    // (graphs, nodes+1) where a node's in-neighbours begin in source
	source       []int32    // (graphs, edges)
	mean         []float32  // (graphs, nodes) 1/in-degree, or 0
	root         []float32  // (graphs, nodes) 1/√(in-degree without a loop, plus 1)
	pairs        [][2]int32 // of one observation
}

func newGraphs(spec models.Spec) graphs {
	if spec.Nodes.Edges == nil {
		return graphs{}
	}
	g := graphs{nodes: spec.Nodes.N, edges: spec.MaxEdges(), fixed: len(spec.Nodes.Edges.Fixed) > 0}
	g.pairs = make([][2]int32, 0, g.edges)
	if g.fixed {
		g.grow(1)
		g.pairs, _ = spec.AppendEdges(g.pairs, nil) // Validate has looked at them
		g.build(0)
	}
	return g
}

func (g *graphs) grow(rows int) {
	g.begin, g.source = make([]int32, rows*(g.nodes+1)), make([]int32, rows*g.edges)
	g.mean, g.root = make([]float32, rows*g.nodes), make([]float32, rows*g.nodes)
}

// build makes rows of the pairs, each in the order of the pairs.
func (g *graphs) build(graph int) {
	begin, source := g.of(graph)
	clear(begin)
	mean, root := g.mean[graph*g.nodes:(graph+1)*g.nodes], g.root[graph*g.nodes:(graph+1)*g.nodes]
	clear(root) // counts in-neighbours that are not the node itself
	for _, p := range g.pairs {
		begin[p[1]+1]++
		if p[0] != p[1] {
			root[p[1]]++
		}
	}
	for i, k := range begin[1:] {
		mean[i] = 0
		if k > 0 {
			mean[i] = 1 / float32(k)
		}
		root[i] = float32(1 / math.Sqrt(float64(root[i])+1))
		begin[i+1] += begin[i]
	}
	// begin[i] moves to the end of row i, which is the begin of the next.
	for _, p := range g.pairs {
		source[begin[p[1]]] = p[0]
		begin[p[1]]++
	}
	copy(begin[1:], begin[:len(begin)-1])
	begin[0] = 0
}

func (g *graphs) of(graph int) (begin, source []int32) {
	return g.begin[graph*(g.nodes+1) : (graph+1)*(g.nodes+1)], g.source[graph*g.edges : (graph+1)*g.edges]
}

// index returns the graph of an observation.
func (g *graphs) index(row int) int {
	if g.fixed {
		return 0
	}
	return row
}

// readEdges builds the graphs of the observations.
func (n *Network) readEdges(obs []float32, rows int) error {
	g := &n.graphs
	if g.edges == 0 || g.fixed {
		return nil
	}
	for r := range rows {
		var err error
		if g.pairs, err = n.spec.AppendEdges(g.pairs[:0], obs[r*n.spec.Inputs:(r+1)*n.spec.Inputs]); err != nil {
			return err
		}
		g.build(r)
	}
	return nil
}

// growNodes makes room for the nodes of that many rows.
func (n *Network) growNodes(rows int) {
	n.global = aligned(rows * (n.nodeInputs - n.spec.Nodes.Features))
	for _, t := range n.spec.Towers {
		if t.Layer != "" {
			n.nodeRows = aligned(rows * n.spec.Nodes.N * n.nodeInputs)
		}
	}
	if g := &n.graphs; g.edges > 0 && !g.fixed {
		g.grow(rows)
	}
}

// gather copies the globals of a tile and, for layers of messages, joins them to the nodes.
func (n *Network) gather(lo, rows int) {
	nodes, inputs := n.spec.Nodes, n.spec.Inputs
	width := n.nodeInputs - nodes.Features
	for r := lo; r < lo+rows; r++ {
		obs, global := n.obs[r*inputs:(r+1)*inputs], n.global[r*width:(r+1)*width]
		at := 0
		for _, g := range n.globals {
			at += copy(global[at:], obs[g.Start:g.End])
		}
		if len(n.nodeRows) == 0 {
			continue
		}
		for i := range nodes.N {
			x := n.nodeRows[(r*nodes.N+i)*n.nodeInputs:]
			copy(x, obs[nodes.Offset+i*nodes.Features:][:nodes.Features])
			copy(x[nodes.Features:], global)
		}
	}
}

// A part is what all nodes of an observation read alike: the globals, or the results of the
// LSTM beside them. Its columns are those of a layer's input from offset on.
type part struct {
	x             []float32 // from a row on
	width, offset int
}

// parts returns those of a node tower, from row lo on. They may be of no width.
func (n *Network) parts(tw *tower, lo int) [2]part {
	features := n.spec.Nodes.Features
	globals := n.nodeInputs - features
	p := [2]part{{n.global[lo*globals:], globals, features}}
	if tw.lstm >= 0 {
		l := &n.lstms[tw.lstm]
		p[1] = part{l.output()[lo*l.out:], l.out, features + globals}
	}
	return p
}

// join sets the rows of a tower whose layers of messages read nodes with an LSTM beside them.
func (n *Network) join(tw *tower, lo, rows int) {
	nodes, width := n.spec.Nodes.N, n.nodeInputs
	beside := n.parts(tw, lo)[1]
	for r := range rows {
		for i := (lo + r) * nodes; i < (lo+r+1)*nodes; i++ {
			x := tw.rows[i*tw.in : (i+1)*tw.in]
			copy(x, n.nodeRows[i*width:(i+1)*width])
			copy(x[width:], beside.x[r*beside.width:])
		}
	}
}

// sendBeside carries the gradient of what a node tower reads to the LSTM beside the nodes.
func (n *Network) sendBeside(tw *tower, d []float32, t tile) {
	nodes, width := n.spec.Nodes.N, n.nodeInputs
	l := &n.lstms[tw.lstm]
	for r := range t.rows {
		n.k.sumRows(l.dOutput[(t.lo+r)*l.out:(t.lo+r+1)*l.out], d[r*nodes*tw.in+width:], nodes, tw.in)
	}
}

// splitAffine computes a layer that reads nodes and parts: parts once for each observation.
func (w *worker) splitAffine(tw *tower, l *layer, lo, rows int) {
	n := w.net
	nodes := n.spec.Nodes
	weight, bias := n.params[l.param].Value, n.params[l.param+1].Value
	start, ldstart := bias, 0
	for _, p := range n.parts(tw, lo) {
		if p.width > 0 {
			n.k.gemm(rows, l.out, p.width, matrix{p.x, p.width, 1}, weight[p.offset*l.out:], l.out, w.sums, l.out, start, ldstart)
			start, ldstart = w.sums, l.out
		}
	}
	for r := range rows {
		x := n.obs[(lo+r)*n.spec.Inputs+nodes.Offset:]
		y := l.y[(lo+r)*nodes.N*l.out:]
		n.k.gemm(nodes.N, l.out, nodes.Features, matrix{x, nodes.Features, 1}, weight, l.out, y, l.out, start[r*ldstart:], 0)
	}
}

// splitParameters adds the gradients of the weight and the bias of such a layer, and that of
// the results of the LSTM beside the nodes.
func (w *worker) splitParameters(tw *tower, l *layer, d []float32, t tile) {
	n := w.net
	nodes := n.spec.Nodes
	weight, bias := w.gradient(l.param, t), w.gradient(l.param+1, t)
	sums := w.sums[:t.rows*l.out]
	clear(sums)
	of := weight[:nodes.Features*l.out]
	sum := of
	if t.set {
		sum = nil
	}
	for r := range t.rows {
		x, dr := n.obs[(t.lo+r)*n.spec.Inputs+nodes.Offset:], d[r*nodes.N*l.out:]
		n.k.gemm(nodes.Features, l.out, nodes.N, matrix{x, 1, nodes.Features}, dr, l.out, of, l.out, sum, l.out)
		sum = of
		n.k.sumRows(sums[r*l.out:(r+1)*l.out], dr, nodes.N, l.out)
	}
	if t.set {
		clear(bias)
	}
	n.k.sumRows(bias, sums, t.rows, l.out)
	for _, p := range n.parts(tw, t.lo) {
		if p.width == 0 {
			continue
		}
		of := weight[p.offset*l.out:]
		sum := of
		if t.set {
			sum = nil
		}
		n.k.gemm(p.width, l.out, t.rows, matrix{p.x, 1, p.width}, sums, l.out, of, l.out, sum, l.out)
	}
	if tw.backward {
		beside := &n.lstms[tw.lstm]
		dOutput := beside.dOutput[t.lo*beside.out:]
		n.k.gemm(t.rows, beside.out, l.out, matrix{sums, l.out, 1}, l.transposed, beside.out, dOutput, beside.out, dOutput, beside.out)
	}
}

// aggregate sets z to what the nodes gather of x: SAGE's mean, or Â·x of GCN.
func (n *Network) aggregate(l *layer, x []float32, lo, rows int) {
	nodes := n.spec.Nodes.N
	for r := range rows {
		index := n.graphs.index(lo + r)
		begin, source := n.graphs.of(index)
		mean, root := n.graphs.mean[index*nodes:(index+1)*nodes], n.graphs.root[index*nodes:(index+1)*nodes]
		xr, zr := x[r*nodes*l.in:], l.z[(lo+r)*nodes*l.in:]
		for i := range nodes {
			z := zr[i*l.in : (i+1)*l.in]
			clear(z)
			if l.kind == models.GCN {
				n.k.addScaled(z, xr[i*l.in:(i+1)*l.in], root[i]*root[i])
			}
			for _, j := range source[begin[i]:begin[i+1]] {
				scale := mean[i]
				if l.kind == models.GCN {
					if int(j) == i {
						continue
					}
					scale = root[i] * root[j]
				}
				n.k.addScaled(z, xr[int(j)*l.in:(int(j)+1)*l.in], scale)
			}
		}
	}
}

// scatter adds to d the gradients of what aggregate read, of those of its results.
func (n *Network) scatter(l *layer, d, dz []float32, t tile) {
	nodes := n.spec.Nodes.N
	for r := range t.rows {
		index := n.graphs.index(t.lo + r)
		begin, source := n.graphs.of(index)
		mean, root := n.graphs.mean[index*nodes:(index+1)*nodes], n.graphs.root[index*nodes:(index+1)*nodes]
		dr, zr := d[r*nodes*l.in:], dz[r*nodes*l.in:]
		for i := range nodes {
			z := zr[i*l.in : (i+1)*l.in]
			if l.kind == models.GCN {
				n.k.addScaled(dr[i*l.in:(i+1)*l.in], z, root[i]*root[i])
			}
			for _, j := range source[begin[i]:begin[i+1]] {
				scale := mean[i]
				if l.kind == models.GCN {
					if int(j) == i {
						continue
					}
					scale = root[i] * root[j]
				}
				n.k.addScaled(dr[int(j)*l.in:(int(j)+1)*l.in], z, scale)
			}
		}
	}
}

// pool computes what a tower reads of a node tower: the mean, then the maximum.
func (w *worker) pool(tw *tower, lo, rows int) {
	n := w.net
	from := &n.towers[tw.from]
	width, nodes := from.width(), n.spec.Nodes.N
	top := from.layers[len(from.layers)-1].y
	for r := lo; r < lo+rows; r++ {
		x, pooled := top[r*nodes*width:(r+1)*nodes*width], tw.pooled[r*tw.in:(r+1)*tw.in]
		if tw.mean {
			n.meanRows(pooled[:width], x)
			pooled = pooled[width:]
		}
		if tw.max {
			n.k.maxRows(pooled, tw.argmax[r*width:(r+1)*width], x)
		}
	}
}

// meanRows sets mean to the mean of the rows of x, which are as long as mean and one for each node.
func (n *Network) meanRows(mean, x []float32) {
	clear(mean)
	nodes := n.spec.Nodes.N
	n.k.sumRows(mean, x, nodes, len(mean))
	scale := 1 / float32(nodes)
	for j := range mean {
		mean[j] *= scale
	}
}

// unpool adds the gradient of what a tower reads to that of the node tower.
func (w *worker) unpool(tw *tower, d []float32, t tile) {
	n := w.net
	width, nodes := n.towers[tw.from].width(), n.spec.Nodes.N
	for r := range t.rows {
		d, top := d[r*tw.in:(r+1)*tw.in], w.tops[tw.from][r*nodes*width:(r+1)*nodes*width]
		if tw.mean {
			scale := 1 / float32(nodes)
			for i := range nodes {
				n.k.addScaled(top[i*width:(i+1)*width], d[:width], scale)
			}
			d = d[width:]
		}
		if tw.max {
			for j, i := range tw.argmax[(t.lo+r)*width : (t.lo+r+1)*width] {
				top[int(i)*width+j] += d[j]
			}
		}
	}
}
