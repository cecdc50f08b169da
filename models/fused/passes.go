package fused

import "github.com/kubernasium/kubernasium/models"

// A worker takes shards of a batch and computes them tile by tile.
type worker struct {
	net   *Network
	start func()      // takes shards; stored, so that starting a goroutine allocates nothing
	d, d2 []float32   // gradients of a tile's activations and of those a layer below
	tops  [][]float32 // gradients of the results of towers that others pool; nil for others
	dz    []float32   // gradients of what layers of messages gathered
	dHead []float32   // gradients of a head of nodes, without the rest of the outputs
	sums  []float32   // sums over the nodes of an observation, a row for each
	grads [][]float32 // gradients of a shard's parameters; the first shard's go to Param.Grad
}

func newWorker(n *Network) *worker {
	items, widest := n.tile, n.widest()
	if n.spec.Nodes != nil {
		items *= n.spec.Nodes.N
	}
	w := &worker{net: n, d: aligned(items * widest), d2: aligned(items * widest)}
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
	lo, rows int
	set      bool // it is the first of its shard, whose gradients are set and not added to
	first    bool // its shard is the first of the batch
}

// forward computes the outputs of rows lo to hi.
func (w *worker) forward(lo, hi int) {
	n := w.net
	for ; lo < hi; lo += n.tile {
		rows := min(n.tile, hi-lo)
		copy(n.obs[lo*n.spec.Inputs:(lo+rows)*n.spec.Inputs], n.input[lo*n.spec.Inputs:])
		if n.spec.Nodes != nil {
			n.gather(lo, rows)
		}
		for t := range n.towers {
			w.forwardTower(&n.towers[t], lo, rows)
		}
		for h := range n.heads {
			if hd := &n.heads[h]; hd.free {
				for r := lo; r < lo+rows; r++ {
					copy(n.outputs[r*n.width+hd.offset:], n.params[hd.param].Value)
				}
			}
		}
	}
}

func (w *worker) forwardTower(tw *tower, lo, rows int) {
	n := w.net
	if tw.from >= 0 {
		w.pool(tw, lo, rows)
	}
	if len(tw.rows) > 0 {
		n.join(tw, lo, rows)
	}
	x := n.read(tw, lo)
	at, items := n.items(tw, lo), n.items(tw, rows)
	for i := range tw.layers {
		l := &tw.layers[i]
		y := l.y[at*l.out : (at+items)*l.out]
		switch {
		case l.split:
			w.splitAffine(tw, l, lo, rows)
		case l.kind != "":
			n.aggregate(l, x, lo, rows)
			w.affine(l, l.z[at*l.in:], items, y, l.out)
			if l.kind == models.SAGE {
				n.k.gemm(items, l.out, l.in, matrix{x, l.in, 1}, n.params[l.param+2].Value, l.out, y, l.out, y, l.out)
			}
		default:
			w.affine(l, x, items, y, l.out)
		}
		if l.norm > 0 {
			w.normalize(l, at, items)
		}
		n.k.activate(y, tw.relu)
		x = y
	}
	for _, h := range tw.heads {
		hd := &n.heads[h]
		if !tw.nodes {
			w.affine(&hd.layer, x, rows, n.outputs[lo*n.width+hd.offset:], n.width)
			continue
		}
		nodes := n.spec.Nodes.N
		for r := range rows {
			w.affine(&hd.layer, x[r*nodes*hd.in:], nodes, n.outputs[(lo+r)*n.width+hd.offset:], hd.out)
		}
	}
}

// read returns what a tower reads, from row lo on. That of a node tower whose first layer is
// split is not used.
func (n *Network) read(tw *tower, lo int) []float32 {
	switch {
	case tw.nodes && tw.layers[0].split:
		return nil
	case len(tw.rows) > 0:
		return tw.rows[n.items(tw, lo)*tw.in:]
	case tw.nodes:
		return n.nodeRows[n.items(tw, lo)*tw.in:]
	case tw.lstm >= 0:
		return n.lstms[tw.lstm].output()[lo*tw.in:]
	case tw.from >= 0:
		return tw.pooled[lo*tw.in:]
	}
	return n.obs[lo*tw.in:]
}

// affine writes x·W + b to y, whose rows start ldy apart.
func (w *worker) affine(l *layer, x []float32, rows int, y []float32, ldy int) {
	weight, bias := w.net.params[l.param].Value, w.net.params[l.param+1].Value
	w.net.k.gemm(rows, l.out, l.in, matrix{x, l.in, 1}, weight, l.out, y, ldy, bias, 0)
}

// backward sets the gradients of a shard, rows lo to hi, in grads or, for the first, in
// Param.Grad.
func (w *worker) backward(lo, hi int) {
	n := w.net
	t := tile{set: true, first: lo == 0}
	for ; lo < hi; lo += n.tile {
		t.lo, t.rows = lo, min(n.tile, hi-lo)
		for _, top := range w.tops {
			clear(top)
		}
		// Those who pool a tower come after it.
		for i := len(n.towers) - 1; i >= 0; i-- {
			w.backwardTower(i, t)
		}
		for h := range n.heads {
			if hd := &n.heads[h]; hd.free {
				g := w.gradient(hd.param, t)
				if t.set {
					clear(g)
				}
				n.k.sumRows(g, n.dOut[lo*n.width+hd.offset:], t.rows, n.width)
			}
		}
		t.set = false
	}
}

// backwardTower sets the gradients of tower index over a tile.
func (w *worker) backwardTower(index int, t tile) {
	n := w.net
	tw := &n.towers[index]
	at, items := n.items(tw, t.lo), n.items(tw, t.rows)
	d := w.headGradients(index, at, items, t)
	if len(tw.layers) == 0 && !tw.backward {
		return
	}
	below, next := w.d2, w.d // by turns; the first d may be in tops
	for i := len(tw.layers) - 1; i >= 0; i-- {
		l := &tw.layers[i]
		n.k.derive(d[:items*l.out], l.y[at*l.out:(at+items)*l.out], tw.relu)
		if l.norm > 0 {
			w.normalizeGradient(l, d, at, items, t)
		}
		x := n.read(tw, t.lo)
		if i > 0 {
			x = tw.layers[i-1].y[at*l.in:]
		}
		w.layerParameters(tw, l, x, d, at, items, t)
		if i == 0 && (!tw.backward || l.split) {
			return
		}
		w.inputGradient(l, d, below, items, t)
		d, below, next = below, next, below
	}
	if tw.backward {
		w.send(tw, d, t)
	}
}

// headGradients sets the gradients of the heads of a tower, and returns that of its results:
// in d or, where the gradients of those who pool them are already, in tops.
func (w *worker) headGradients(index, at, items int, t tile) []float32 {
	n := w.net
	tw := &n.towers[index]
	x := n.read(tw, t.lo)
	if top := len(tw.layers) - 1; top >= 0 {
		x = tw.layers[top].y[at*tw.layers[top].out:]
	}
	d := w.d
	var sum []float32 // over what reads the tower
	if tw.readers > 0 {
		d = w.tops[index]
		sum = d
	}
	for _, h := range tw.heads {
		hd := &n.heads[h]
		dOut, ldd := n.dOut[t.lo*n.width+hd.offset:], n.width
		if tw.nodes {
			dOut, ldd = w.gatherHead(hd, t), hd.out
		}
		w.parameters(&hd.layer, x, dOut, ldd, items, t)
		if len(hd.transposed) > 0 {
			n.k.gemm(items, hd.in, hd.out, matrix{dOut, ldd, 1}, hd.transposed, hd.in, d, hd.in, sum, hd.in)
			sum = d
		}
	}
	if sum == nil && (len(tw.layers) > 0 || tw.backward) { // only those read it who send no gradient
		clear(d[:items*tw.width()])
	}
	return d
}

// gatherHead returns the gradients of a head of nodes, one node after another.
func (w *worker) gatherHead(hd *head, t tile) []float32 {
	n := w.net
	size := n.spec.Nodes.N * hd.out
	for r := range t.rows {
		copy(w.dHead[r*size:(r+1)*size], n.dOut[(t.lo+r)*n.width+hd.offset:])
	}
	return w.dHead
}

// layerParameters adds the gradients of the weights and the bias of a layer.
func (w *worker) layerParameters(tw *tower, l *layer, x, d []float32, at, items int, t tile) {
	switch {
	case l.split:
		w.splitParameters(tw, l, d, t)
	case l.kind != "":
		w.parameters(l, l.z[at*l.in:], d, l.out, items, t)
		if l.kind == models.SAGE {
			w.weight(l.param+2, l.in, l.out, x, d, l.out, items, t)
		}
	default:
		w.parameters(l, x, d, l.out, items, t)
	}
}

// inputGradient sets below to the gradient of what a layer reads.
func (w *worker) inputGradient(l *layer, d, below []float32, items int, t tile) {
	k := w.net.k
	if l.kind == "" {
		k.gemm(items, l.in, l.out, matrix{d, l.out, 1}, l.transposed, l.in, below, l.in, nil, 0)
		return
	}
	dz := w.dz[:items*l.in]
	k.gemm(items, l.in, l.out, matrix{d, l.out, 1}, l.transposed, l.in, dz, l.in, nil, 0)
	if l.kind == models.SAGE {
		k.gemm(items, l.in, l.out, matrix{d, l.out, 1}, l.root, l.in, below, l.in, nil, 0)
	} else {
		clear(below[:items*l.in])
	}
	w.net.scatter(l, below, dz, t)
}

// send carries the gradient of what a tower reads to the LSTM or the node tower.
func (w *worker) send(tw *tower, d []float32, t tile) {
	switch {
	case tw.nodes:
		w.net.sendBeside(tw, d, t)
	case tw.lstm >= 0:
		all := w.net.lstms[tw.lstm].dOutput
		w.net.k.add(all[t.lo*tw.in:(t.lo+t.rows)*tw.in], d)
	default:
		w.unpool(tw, d, t)
	}
}

// gradient returns where a tile adds the gradient of a parameter.
func (w *worker) gradient(param int, t tile) []float32 {
	if t.first {
		return w.net.params[param].Grad
	}
	return w.grads[param]
}

// parameters adds the gradients of a layer's weight and bias over a tile, xᵀ·d and the sum of
// the rows of d, to those of the shard, or sets them if the tile is its first.
func (w *worker) parameters(l *layer, x, d []float32, ldd, items int, t tile) {
	w.weight(l.param, l.in, l.out, x, d, ldd, items, t)
	bias := w.gradient(l.param+1, t)
	if t.set {
		clear(bias)
	}
	w.net.k.sumRows(bias, d, items, ldd)
}

// weight adds xᵀ·d to the gradient of a weight.
func (w *worker) weight(param, in, out int, x, d []float32, ldd, items int, t tile) {
	g := w.gradient(param, t)
	sum := g
	if t.set {
		sum = nil
	}
	w.net.k.gemm(in, out, items, matrix{x, 1, in}, d, ldd, g, out, sum, out)
}
