package fused

// normEps is added to the variance, the default of torch.nn.LayerNorm.
const normEps = 1e-5

// normalize applies the layer norm of a layer to its results.
//
// Source: Ba, Kiros and Hinton, "Layer Normalization", arXiv:1607.06450, as torch.nn.LayerNorm
// computes it.
func (w *worker) normalize(l *layer, at, items int) {
	gamma, beta := w.net.params[l.norm].Value, w.net.params[l.norm+1].Value
	for i := at; i < at+items; i++ {
		l.inverse[i] = w.net.k.normalize(l.y[i*l.out:(i+1)*l.out], l.xhat[i*l.out:(i+1)*l.out], gamma, beta)
	}
}

// normalizeGradient replaces d, the gradients of the results of a layer norm, by those of
// what it read, and adds the gradients of its weight and bias.
func (w *worker) normalizeGradient(l *layer, d []float32, at, items int, t tile) {
	weight, bias := w.gradient(l.norm, t), w.gradient(l.norm+1, t)
	if t.set {
		clear(weight)
		clear(bias)
	}
	w.net.k.sumRows(bias, d, items, l.out)
	gamma := w.net.params[l.norm].Value
	for i := range items {
		xhat := l.xhat[(at+i)*l.out : (at+i+1)*l.out]
		w.net.k.normalizeGradient(d[i*l.out:(i+1)*l.out], xhat, gamma, weight, l.inverse[at+i])
	}
}
