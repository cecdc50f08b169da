package fused

// A worker takes shards of a batch and computes them tile by tile.
type worker struct {
	net *Network
	k   kernels
	tile
	start func()      // takes shards; stored, so that starting a goroutine allocates nothing
	d, d2 []float32   // gradients of a tile's activations and of those a layer below
	tops  [][]float32 // gradients of the results of towers that others pool; nil for others
	dz    []float32   // gradients of what layers of messages gathered
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
	w.start = func() {
		defer n.running.Done()
		w.takeShards()
	}
	for _, t := range n.spec.Towers {
		if t.Layer != "" {
			w.dz = aligned(items * widest)
		}
	}
	w.tops = make([][]float32, len(n.towers))
	for t, tw := range n.towers {
		if tw.readers > 0 {
			w.tops[t] = aligned(items * tw.width())
		}
	}
	size := 0
	for _, h := range n.heads {
		if !h.free && n.towers[h.tower].nodes {
			size = max(size, h.out)
		}
	}
	w.dHead, w.sums = aligned(items*size), aligned(n.tile*widest)
	total := 0
	for _, p := range n.params {
		total += len(p.Grad)
	}
	flat := aligned(total)
	for _, p := range n.params {
		size := len(p.Grad)
		w.grads = append(w.grads, flat[:size:size])
		flat = flat[size:]
	}
	return w
}

// A tile is a range of the rows of a shard that passes through all layers together.
type tile struct {
	lo, rows  int  // observations
	at, items int  // of the tower in work
	set       bool // it is the first of its shard, whose gradients are set and not added to
	first     bool // its shard is the first of the batch
}

// of sets the range of items to that of a tower.
func (t *tile) of(tw *tower) { t.at, t.items = t.lo*tw.each, t.rows*tw.each }

// forward computes the outputs of rows lo to hi.
func (w *worker) forward(lo, hi int) {
	n := w.net
	for ; lo < hi; lo += n.tile {
		w.lo, w.rows = lo, min(n.tile, hi-lo)
		copy(n.obs[lo*n.spec.Inputs:(lo+w.rows)*n.spec.Inputs], n.input[lo*n.spec.Inputs:])
		if n.nodes != nil {
			n.nodes.gather(n.obs, lo, lo+w.rows)
		}
		for _, tw := range n.towers {
			w.forwardTower(tw)
		}
		for h := range n.heads {
			if hd := &n.heads[h]; hd.free {
				for r := lo; r < lo+w.rows; r++ {
					copy(n.outputs[r*n.width+hd.offset:], hd.bias.value)
				}
			}
		}
	}
}

func (w *worker) forwardTower(tw *tower) {
	n := w.net
	w.of(tw)
	x := tw.forward(w)
	for _, h := range tw.heads {
		hd := &n.heads[h]
		if !tw.nodes {
			hd.affine(w, x, w.rows, n.outputs[w.lo*n.width+hd.offset:], n.width)
			continue
		}
		for r := range w.rows {
			hd.affine(w, x[r*tw.each*hd.in:], tw.each, n.outputs[(w.lo+r)*n.width+hd.offset:], hd.out)
		}
	}
}

// backward sets the gradients of a shard, rows lo to hi, in grads or, for the first, in
// Param.Grad.
func (w *worker) backward(lo, hi int) {
	n := w.net
	w.set, w.first = true, lo == 0
	for ; lo < hi; lo += n.tile {
		w.lo, w.rows = lo, min(n.tile, hi-lo)
		for _, top := range w.tops {
			clear(top)
		}
		// Those who pool a tower come after it.
		for i := len(n.towers) - 1; i >= 0; i-- {
			w.backwardTower(n.towers[i])
		}
		for h := range n.heads {
			if hd := &n.heads[h]; hd.free {
				w.addBias(hd.bias, n.dOut[lo*n.width+hd.offset:], w.rows, n.width)
			}
		}
		w.set = false
	}
}

// backwardTower sets the gradients of a tower over a tile.
func (w *worker) backwardTower(tw *tower) {
	w.of(tw)
	if d := w.headGradients(tw); tw.learns {
		tw.backward(w, d)
	}
}

// headGradients sets the gradients of the heads of a tower, and returns that of its results:
// in d or, where the gradients of those who pool them are already, in tops.
func (w *worker) headGradients(tw *tower) []float32 {
	n := w.net
	x := tw.top().results(w)
	d := w.d
	var sum []float32 // over what reads the tower
	if tw.readers > 0 {
		d = w.tops[tw.index]
		sum = d
	}
	for _, h := range tw.heads {
		hd := &n.heads[h]
		dOut, ldd := n.dOut[w.lo*n.width+hd.offset:], n.width
		if tw.nodes {
			dOut, ldd = w.gatherHead(hd), hd.out
		}
		hd.parameters(w, x, dOut, ldd)
		if len(hd.transposed) > 0 {
			w.k.gemm(w.items, hd.in, hd.out, matrix{dOut, ldd, 1}, hd.transposed, hd.in, d, hd.in, sum, hd.in)
			sum = d
		}
	}
	if sum == nil && tw.learns { // only those read it who send no gradient
		clear(d[:w.items*tw.width()])
	}
	return d
}

// gatherHead returns the gradients of a head of nodes, one node after another.
func (w *worker) gatherHead(hd *head) []float32 {
	n := w.net
	size := n.spec.Nodes.N * hd.out
	for r := range w.rows {
		copy(w.dHead[r*size:(r+1)*size], n.dOut[(w.lo+r)*n.width+hd.offset:])
	}
	return w.dHead
}

// other returns an array for gradients that is not d, which is such an array or one of tops.
func (w *worker) other(d []float32) []float32 {
	if &d[0] == &w.d2[0] {
		return w.d
	}
	return w.d2
}

// gradient returns where the tile adds the gradient of a parameter.
func (w *worker) gradient(p param) []float32 {
	if w.first {
		return p.grad
	}
	return w.grads[p.index]
}

// sum returns what is to be added to the gradient g of a tile: what g holds, or nil for zero if
// the tile is the first of its shard.
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
