package fused

// A sage layer is y = z·W + b + x·root, where z is the mean of x over a node's in-neighbours, 0 if
// it has none: [models.SAGE].
type sage struct {
	dense      // of z
	root       param
	transposed []float32 // of root; empty if that of W is
	graphs     *graphs
	z          []float32 // for all items of the last Forward
}

var _ module = (*sage)(nil)

func newSAGE(c *cursor, g *graphs, needsGradient bool) *sage {
	l := &sage{dense: newDense(c, needsGradient), root: c.take()}
	l.graphs = g
	if needsGradient {
		l.transposed = c.transposed(l.root, 0)
	}
	return l
}

func (l *sage) grow(items int, _ []float32) []float32 {
	l.z = aligned(items * l.in)
	return aligned(items * l.out)
}

func (l *sage) forward(w *worker, x, y []float32) {
	l.gather(w, x)
	l.affine(w, l.gathered(w), w.items, y, l.out)
	w.k.gemm(w.items, l.out, l.in, matrix{x, l.in, 1}, l.root.value, l.out, y, l.out, y, l.out)
}

func (l *sage) backward(w *worker, x, _, d []float32) []float32 {
	l.parameters(w, l.gathered(w), d, l.out)
	w.addWeight(l.root, x, d, l.out)
	if len(l.transposed) == 0 {
		return nil
	}
	dz, dx := w.dz[:w.items*l.in], w.other(d)
	w.k.gemm(w.items, l.in, l.out, matrix{d, l.out, 1}, l.dense.transposed, l.in, dz, l.in, nil, 0)
	w.k.gemm(w.items, l.in, l.out, matrix{d, l.out, 1}, l.transposed, l.in, dx, l.in, nil, 0)
	l.scatter(w, dx, dz)
	return dx
}

// gathered returns z of the worker's tile.
func (l *sage) gathered(w *worker) []float32 { return l.z[w.at*l.in : (w.at+w.items)*l.in] }

// gather computes z.
func (l *sage) gather(w *worker, x []float32) {
	z, size := l.gathered(w), l.graphs.nodes*l.in
	for r := range w.rows {
		g := l.graphs.of(w.lo + r)
		xr, zr := x[r*size:(r+1)*size], z[r*size:(r+1)*size]
		for i, scale := range g.mean {
			zi := zr[i*l.in : (i+1)*l.in]
			clear(zi)
			for _, j := range g.neighbours(i) {
				w.k.addScaled(zi, xr[int(j)*l.in:(int(j)+1)*l.in], scale)
			}
		}
	}
}

// scatter adds to dx the gradient that flows back through gather.
func (l *sage) scatter(w *worker, dx, dz []float32) {
	size := l.graphs.nodes * l.in
	for r := range w.rows {
		g := l.graphs.of(w.lo + r)
		dr, zr := dx[r*size:(r+1)*size], dz[r*size:(r+1)*size]
		for i, scale := range g.mean {
			zi := zr[i*l.in : (i+1)*l.in]
			for _, j := range g.neighbours(i) {
				w.k.addScaled(dr[int(j)*l.in:(int(j)+1)*l.in], zi, scale)
			}
		}
	}
}
