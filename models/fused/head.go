package fused

// A head writes a part of the outputs from x, the results of a tower.
type head interface {
	forward(w *worker, x []float32)

	// backward adds the gradients of the parameters. If the tower learns, it sets dx to sum plus
	// the gradient of x, and returns true. A nil sum is zero.
	backward(w *worker, x, dx, sum []float32) bool
}

// A rowHead is a dense layer that writes its results to the columns of the outputs from offset on.
type rowHead struct {
	dense
	offset int
}

var _ head = (*rowHead)(nil)

func (h *rowHead) forward(w *worker, x []float32) {
	h.affine(w, x, w.rows, w.net.outputs[w.lo*w.net.width+h.offset:], w.net.width)
}

func (h *rowHead) backward(w *worker, x, dx, sum []float32) bool {
	return h.pass(w, x, w.net.dOut[w.lo*w.net.width+h.offset:], w.net.width, dx, sum)
}

// pass is backward for d, whose rows start ldd apart.
func (h *rowHead) pass(w *worker, x, d []float32, ldd int, dx, sum []float32) bool {
	h.parameters(w, x, d, ldd)
	if len(h.transposed) == 0 {
		return false
	}
	w.k.gemm(w.items, h.in, h.out, matrix{d, ldd, 1}, h.transposed, h.in, dx, h.in, sum, h.in)
	return true
}

// A nodeHead is a rowHead for each node; the results of the nodes are adjacent.
type nodeHead struct {
	rowHead
	nodes int
}

var _ head = (*nodeHead)(nil)

func (h *nodeHead) forward(w *worker, x []float32) {
	for r := range w.rows {
		h.affine(w, x[r*h.nodes*h.in:], h.nodes, w.net.outputs[(w.lo+r)*w.net.width+h.offset:], h.out)
	}
}

func (h *nodeHead) backward(w *worker, x, dx, sum []float32) bool {
	size := h.nodes * h.out
	for r := range w.rows {
		copy(w.dHead[r*size:(r+1)*size], w.net.dOut[(w.lo+r)*w.net.width+h.offset:])
	}
	return h.pass(w, x, w.dHead, h.out, dx, sum)
}

// A freeHead repeats a parameter in each row of the outputs. It belongs to no tower.
type freeHead struct {
	value  param
	offset int
}

func (h *freeHead) forward(w *worker) {
	for r := w.lo; r < w.lo+w.rows; r++ {
		copy(w.net.outputs[r*w.net.width+h.offset:], h.value.value)
	}
}

func (h *freeHead) backward(w *worker) {
	w.addBias(h.value, w.net.dOut[w.lo*w.net.width+h.offset:], w.rows, w.net.width)
}
