package fused

// A dense layer is y = x·W + b.
type dense struct {
	weight, bias param
	in, out      int
	transposed   []float32 // W as (out, in), for the gradient of x; empty if that is not needed
}

var _ module = (*dense)(nil)

// newDense takes the weight and the bias.
func newDense(c *cursor, needsGradient bool) dense {
	l := dense{weight: c.take(), bias: c.take()}
	l.in, l.out = l.weight.shape[0], l.weight.shape[1]
	if needsGradient {
		l.transposed = c.transposed(l.weight, 0)
	}
	return l
}

func (l *dense) grow(items int, _ []float32) []float32 { return aligned(items * l.out) }

func (l *dense) forward(w *worker, x, y []float32) { l.affine(w, x, w.items, y, l.out) }

func (l *dense) backward(w *worker, x, _, d []float32) []float32 {
	l.parameters(w, x, d, l.out)
	if len(l.transposed) == 0 {
		return nil
	}
	dx := w.other(d)
	w.k.gemm(w.items, l.in, l.out, matrix{d, l.out, 1}, l.transposed, l.in, dx, l.in, nil, 0)
	return dx
}

// affine writes x·W + b to y, whose rows start ldy apart.
func (l *dense) affine(w *worker, x []float32, rows int, y []float32, ldy int) {
	w.k.gemm(rows, l.out, l.in, matrix{x, l.in, 1}, l.weight.value, l.out, y, ldy, l.bias.value, 0)
}

// parameters adds the gradients of weight and bias, xᵀ·d and the sum of the rows of d, which
// start ldd apart.
func (l *dense) parameters(w *worker, x, d []float32, ldd int) {
	w.addWeight(l.weight, x, d, ldd)
	w.addBias(l.bias, d, w.items, ldd)
}
