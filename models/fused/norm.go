package fused

// normEps is added to the variance, the default of torch.nn.LayerNorm.
const normEps = 1e-5

// A norm normalizes each item and maps it by an affine function. It works in place.
//
// Source: Ba, Kiros and Hinton, "Layer Normalization", arXiv:1607.06450, as torch.nn.LayerNorm
// computes it.
type norm struct {
	weight, bias param
	width        int
	xhat         []float32 // results before the affine function
	inverse      []float32 // 1/σ of each item
}

var _ module = (*norm)(nil)

func newNorm(c *cursor) *norm {
	l := &norm{weight: c.take(), bias: c.take()}
	l.width = len(l.weight.value)
	return l
}

func (l *norm) grow(items int, x []float32) []float32 {
	l.xhat, l.inverse = aligned(items*l.width), make([]float32, items)
	return x
}

func (l *norm) forward(w *worker, _, y []float32) {
	xhat, inverse := l.tile(w)
	for i := range inverse {
		of := i * l.width
		inverse[i] = w.k.normalize(y[of:of+l.width], xhat[of:of+l.width], l.weight.value, l.bias.value)
	}
}

func (l *norm) backward(w *worker, _, _, d []float32) []float32 {
	weight := w.gradient(l.weight)
	if w.set {
		clear(weight)
	}
	w.addBias(l.bias, d, w.items, l.width)
	xhat, inverse := l.tile(w)
	for i := range inverse {
		of := i * l.width
		w.k.normalizeGradient(d[of:of+l.width], xhat[of:of+l.width], l.weight.value, weight, inverse[i])
	}
	return d
}

// tile returns xhat and inverse of the items of the worker's tile.
func (l *norm) tile(w *worker) (xhat, inverse []float32) {
	return l.xhat[w.at*l.width : (w.at+w.items)*l.width], l.inverse[w.at : w.at+w.items]
}
