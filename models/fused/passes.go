package fused

// A worker takes shards of a batch and computes them tile by tile.
type worker struct {
	net   *Network
	start func()      // takes shards; stored, so that starting a goroutine allocates nothing
	d, d2 []float32   // gradients of a tile's activations and of those a layer below
	grads [][]float32 // gradients of a shard's parameters; the first shard's go to Param.Grad
}

func newWorker(n *Network) *worker {
	w := &worker{net: n, d: aligned(tileRows * n.widest()), d2: aligned(tileRows * n.widest())}
	w.start = func() {
		defer n.running.Done()
		w.takeShards()
	}
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

// forward computes the outputs of rows lo to hi.
func (w *worker) forward(lo, hi int) {
	n := w.net
	for ; lo < hi; lo += tileRows {
		rows := min(tileRows, hi-lo)
		obs := n.obs[lo*n.spec.Inputs : (lo+rows)*n.spec.Inputs]
		copy(obs, n.input[lo*n.spec.Inputs:])
		for t := range n.towers {
			tw := &n.towers[t]
			x := obs
			for i := range tw.layers {
				l := &tw.layers[i]
				y := l.y[lo*l.out : (lo+rows)*l.out]
				w.affine(l, x, rows, y, l.out)
				n.k.activate(y, tw.relu)
				x = y
			}
			for _, h := range tw.heads {
				hd := &n.heads[h]
				w.affine(&hd.layer, x, rows, n.outputs[lo*n.width+hd.offset:], n.width)
			}
		}
	}
}

// affine writes x·W + b to y, whose rows start ldy apart.
func (w *worker) affine(l *layer, x []float32, rows int, y []float32, ldy int) {
	weight, bias := w.net.params[l.param].Value, w.net.params[l.param+1].Value
	w.net.k.gemm(rows, l.out, l.in, matrix{x, l.in, 1}, weight, l.out, y, ldy, bias, 0)
}

// backward sets the gradients of a shard, rows lo to hi, in grads or, for the first, in
// Param.Grad.
func (w *worker) backward(lo, hi int) {
	first := lo
	for ; lo < hi; lo += tileRows {
		rows := min(tileRows, hi-lo)
		for t := range w.net.towers {
			w.backwardTower(&w.net.towers[t], first, lo, rows)
		}
	}
}

func (w *worker) backwardTower(tw *tower, first, lo, rows int) {
	n := w.net
	d, below := w.d, w.d2
	x := n.obs[lo*n.spec.Inputs:]
	if top := len(tw.layers) - 1; top >= 0 {
		x = tw.layers[top].y[lo*tw.layers[top].out:]
	}
	for i, h := range tw.heads {
		hd := &n.heads[h]
		dOut := n.dOut[lo*n.width+hd.offset:]
		w.parameters(&hd.layer, x, dOut, n.width, first, lo, rows)
		if len(hd.transposed) > 0 {
			var sum []float32 // over the heads of the tower
			if i > 0 {
				sum = d
			}
			n.k.gemm(rows, hd.in, hd.out, matrix{dOut, n.width, 1}, hd.transposed, hd.in, d, hd.in, sum, hd.in)
		}
	}
	for i := len(tw.layers) - 1; i >= 0; i-- {
		l := &tw.layers[i]
		n.k.derive(d[:rows*l.out], l.y[lo*l.out:(lo+rows)*l.out], tw.relu)
		if i == 0 {
			w.parameters(l, n.obs[lo*n.spec.Inputs:], d, l.out, first, lo, rows)
			return
		}
		w.parameters(l, tw.layers[i-1].y[lo*l.in:], d, l.out, first, lo, rows)
		n.k.gemm(rows, l.in, l.out, matrix{d, l.out, 1}, l.transposed, l.in, below, l.in, nil, 0)
		d, below = below, d
	}
}

// parameters adds the gradients of a layer's weight and bias over a tile, xᵀ·d and the sum of
// the rows of d, to those of the shard, or sets them if the tile is its first.
func (w *worker) parameters(l *layer, x, d []float32, ldd, first, lo, rows int) {
	weight, bias := w.grads[l.param], w.grads[l.param+1]
	if first == 0 {
		weight, bias = w.net.params[l.param].Grad, w.net.params[l.param+1].Grad
	}
	sum := weight
	if lo == first {
		sum = nil
		clear(bias)
	}
	w.net.k.gemm(l.in, l.out, rows, matrix{x, 1, l.in}, d, ldd, weight, l.out, sum, l.out)
	w.net.k.sumRows(bias, d, rows, ldd)
}
