package fused

// A nodeDense layer is a dense layer over the rows of nodes, each joined with the parts that all
// nodes of an observation share. It is the first of a tower, reads both in place, and multiplies
// the shared parts once per observation.
type nodeDense struct {
	net          *Network
	weight, bias param
	out          int
	parts        []part
	beside       *lstm     // the LSTM that receives a gradient, or nil
	transposed   []float32 // rows of W for the LSTM's results, as (out, width); empty without beside
}

// A part is shared by all nodes of an observation: the globals, or the results of an LSTM. The rows
// of W from offset on multiply it.
type part struct {
	memory        func() []float32
	x             []float32 // (rows, width)
	width, offset int
}

var _ module = (*nodeDense)(nil)

// newNodeDense returns the layer. lstm may be nil.
func newNodeDense(c *cursor, n *Network, lstm *lstm, needsGradient bool) *nodeDense {
	l := &nodeDense{net: n, weight: c.take(), bias: c.take()}
	l.out = l.weight.shape[1]
	nodes := n.nodes
	if globals := nodes.width - nodes.Features; globals > 0 {
		l.parts = append(l.parts, part{memory: func() []float32 { return nodes.globals }, width: globals, offset: nodes.Features})
	}
	if lstm == nil {
		return l
	}
	l.parts = append(l.parts, part{memory: lstm.results, width: lstm.width, offset: nodes.width})
	if needsGradient {
		l.beside, l.transposed = lstm, c.transposed(l.weight, nodes.width)
	}
	return l
}

func (l *nodeDense) grow(items int, _ []float32) []float32 {
	for i := range l.parts {
		l.parts[i].x = l.parts[i].memory()
	}
	return aligned(items * l.out)
}

func (l *nodeDense) forward(w *worker, _, y []float32) {
	nodes := l.net.nodes
	start, ldstart := l.bias.value, 0
	for i := range l.parts {
		p := &l.parts[i]
		w.k.gemm(w.rows, l.out, p.width, matrix{p.x[w.lo*p.width:], p.width, 1}, l.weight.value[p.offset*l.out:], l.out, w.sums, l.out, start, ldstart)
		start, ldstart = w.sums, l.out
	}
	for r := range w.rows {
		w.k.gemm(nodes.N, l.out, nodes.Features, matrix{l.rows(w, r), nodes.Features, 1}, l.weight.value, l.out, y[r*nodes.N*l.out:], l.out, start[r*ldstart:], 0)
	}
}

// backward adds the gradient of the LSTM's results to its dOutput, and returns nil.
func (l *nodeDense) backward(w *worker, _, _, d []float32) []float32 {
	nodes := l.net.nodes
	sums := w.sums[:w.rows*l.out]
	clear(sums)
	of := w.gradient(l.weight)[:nodes.Features*l.out]
	sum := w.sum(of)
	for r := range w.rows {
		dr := d[r*nodes.N*l.out:]
		w.k.gemm(nodes.Features, l.out, nodes.N, matrix{l.rows(w, r), 1, nodes.Features}, dr, l.out, of, l.out, sum, l.out)
		sum = of
		w.k.sumRows(sums[r*l.out:(r+1)*l.out], dr, nodes.N, l.out)
	}
	w.addBias(l.bias, sums, w.rows, l.out)
	for i := range l.parts {
		p := &l.parts[i]
		of := w.gradient(l.weight)[p.offset*l.out:]
		w.k.gemm(p.width, l.out, w.rows, matrix{p.x[w.lo*p.width:], 1, p.width}, sums, l.out, of, l.out, w.sum(of), l.out)
	}
	if l.beside != nil {
		width := l.beside.width
		dx := l.beside.dOutput[w.lo*width:]
		w.k.gemm(w.rows, width, l.out, matrix{sums, l.out, 1}, l.transposed, width, dx, width, dx, width)
	}
	return nil
}

// rows returns the rows of the nodes of an observation of the worker's tile.
func (l *nodeDense) rows(w *worker, r int) []float32 {
	return l.net.obs[(w.lo+r)*l.net.spec.Inputs+l.net.nodes.Offset:]
}
