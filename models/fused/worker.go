package fused

// A worker computes parts of a batch tile by tile.
type worker struct {
	net *Network
	k   kernels
	tile
	d, d2 []float32   // gradients of a tile's activations, and of those of the layer below
	tops  [][]float32 // gradients of the results of towers that others pool; nil for other towers
	dz    []float32   // gradients of the z of SAGE and GCN layers
	dHead []float32   // gradients of a head of nodes, without the rest of the outputs
	sums  []float32   // sums over the nodes of an observation, a row for each
	grads [][]float32 // gradients of a shard's parameters; the first shard's go to Param.Grad
}

func newWorker(n *Network) *worker {
	items, widest := n.tile, n.widest
	if n.spec.Nodes != nil {
		items *= n.spec.Nodes.N
	}
	w := &worker{net: n, k: n.k.kernels, d: aligned(items * widest), d2: aligned(items * widest)}
	if n.nodes != nil && n.nodes.joined {
		w.dz = aligned(items * n.widest)
	}
	w.tops = make([][]float32, len(n.towers))
	for i, tw := range n.towers {
		if tw.readers > 0 {
			w.tops[i] = aligned(items * tw.width())
		}
	}
	w.dHead, w.sums = aligned(items*n.widestHead), aligned(n.tile*n.widest)
	w.grads = newGrads(n)
	return w
}

// A tile is a range of the rows of a shard that passes through all layers together.
type tile struct {
	lo, rows  int  // observations
	at, items int  // of the current tower; at is its place in the memory of activations
	shift     int  // from that place, in observations, to lo
	set       bool // the first of its shard: gradients are set, not accumulated
	first     bool // of the first shard of the batch
}

// forward computes the outputs of towers and free heads for rows lo to hi.
func (w *worker) forward(towers []*tower, free []*freeHead, lo, hi int) {
	n := w.net
	for ; lo < hi; lo += n.tile {
		w.lo, w.rows = lo, min(n.tile, hi-lo)
		if n.input != nil {
			at := lo - w.shift
			copy(n.obs[at*n.spec.Inputs:(at+w.rows)*n.spec.Inputs], n.input[lo*n.spec.Inputs:])
		}
		if n.nodes != nil {
			n.nodes.gather(n.obs, lo, lo+w.rows)
		}
		for _, tw := range towers {
			if !tw.skipped {
				tw.forward(w)
			}
		}
		for _, h := range free {
			h.forward(w)
		}
	}
}

// backward sets the gradients of a group's shard, rows lo to hi, in grads or, for the first, in
// Param.Grad.
func (w *worker) backward(g *group, lo, hi int) {
	n := w.net
	w.set, w.first = true, lo == 0
	for ; lo < hi; lo += n.tile {
		w.lo, w.rows = lo, min(n.tile, hi-lo)
		w.backwardTile(g)
		w.set = false
	}
}

// backwardTile adds the gradients of a group's tile.
func (w *worker) backwardTile(g *group) {
	for _, tw := range g.towers {
		clear(w.tops[tw.index])
	}
	for i := len(g.towers) - 1; i >= 0; i-- { // towers come after those that they pool
		g.towers[i].backward(w)
	}
	for _, h := range g.free {
		h.backward(w)
	}
}

// other returns d or d2 of the worker, whichever is not the argument.
func (w *worker) other(d []float32) []float32 {
	if &d[0] == &w.d2[0] {
		return w.d
	}
	return w.d2
}

// gradient returns the array to which the tile adds the gradient of a parameter.
func (w *worker) gradient(p param) []float32 {
	if w.first {
		return p.grad
	}
	return w.grads[p.index]
}

// sum returns the start of the sum that a tile adds to gradient g: g, or nil for zero if the tile is
// the first of its shard.
func (w *worker) sum(g []float32) []float32 {
	if w.set {
		return nil
	}
	return g
}

// addWeight adds xᵀ·d to the gradient of a weight.
func (w *worker) addWeight(p param, x, d []float32, ldd int) {
	in, out := p.shape[0], p.shape[1]
	g := w.gradient(p)
	w.k.gemm(in, out, w.items, matrix{x, 1, in}, d, ldd, g, out, w.sum(g), out)
}

// addBias adds the sum of rows of d, which start ldd apart, to the gradient of a bias.
func (w *worker) addBias(p param, d []float32, rows, ldd int) {
	g := w.gradient(p)
	if w.set {
		clear(g)
	}
	w.k.sumRows(g, d, rows, ldd)
}
