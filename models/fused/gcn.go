package fused

// A gcn layer is y = z·W + b with z = Â·x: [models.GCN].
type gcn struct {
	dense  // of z
	graphs *graphs
	z      []float32 // for all items of the last Forward
}

var _ module = (*gcn)(nil)

func newGCN(c *cursor, g *graphs, needsGradient bool) *gcn {
	l := &gcn{dense: newDense(c, needsGradient)}
	l.graphs = g
	return l
}

func (l *gcn) grow(items int, _ []float32) []float32 {
	l.z = aligned(items * l.in)
	return aligned(items * l.out)
}

func (l *gcn) forward(w *worker, x, y []float32) {
	l.gather(w, x)
	l.affine(w, l.gathered(w), w.items, y, l.out)
}

func (l *gcn) backward(w *worker, _, _, d []float32) []float32 {
	l.parameters(w, l.gathered(w), d, l.out)
	if len(l.transposed) == 0 {
		return nil
	}
	dz, dx := w.dz[:w.items*l.in], w.other(d)[:w.items*l.in]
	w.k.gemm(w.items, l.in, l.out, matrix{d, l.out, 1}, l.transposed, l.in, dz, l.in, nil, 0)
	clear(dx)
	l.scatter(w, dx, dz)
	return dx
}

// gathered returns z of the worker's tile.
func (l *gcn) gathered(w *worker) []float32 { return l.z[w.at*l.in : (w.at+w.items)*l.in] }

// gather computes z.
func (l *gcn) gather(w *worker, x []float32) {
	z, size := l.gathered(w), l.graphs.nodes*l.in
	for r := range w.rows {
		g := l.graphs.of(w.lo + r)
		xr, zr := x[r*size:(r+1)*size], z[r*size:(r+1)*size]
		for i, root := range g.root {
			zi := zr[i*l.in : (i+1)*l.in]
			clear(zi)
			w.k.addScaled(zi, xr[i*l.in:(i+1)*l.in], root*root)
			for _, j := range g.neighbours(i) {
				if int(j) != i {
					w.k.addScaled(zi, xr[int(j)*l.in:(int(j)+1)*l.in], root*g.root[j])
				}
			}
		}
	}
}

// scatter adds to dx the gradient that flows back through gather.
func (l *gcn) scatter(w *worker, dx, dz []float32) {
	size := l.graphs.nodes * l.in
	for r := range w.rows {
		g := l.graphs.of(w.lo + r)
		dr, zr := dx[r*size:(r+1)*size], dz[r*size:(r+1)*size]
		for i, root := range g.root {
			zi := zr[i*l.in : (i+1)*l.in]
			w.k.addScaled(dr[i*l.in:(i+1)*l.in], zi, root*root)
			for _, j := range g.neighbours(i) {
				if int(j) != i {
					w.k.addScaled(dr[int(j)*l.in:(int(j)+1)*l.in], zi, root*g.root[j])
				}
			}
		}
	}
}
