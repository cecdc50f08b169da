package fused

import "math"

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

func (gonumKernels) normalize(y, xhat, gamma, beta []float32) (inverse float32) {
	scale := 1 / float32(len(y))
	mean := sum(y) * scale
	xhat, gamma, beta = xhat[:len(y)], gamma[:len(y)], beta[:len(y)]
	for j, v := range y {
		xhat[j] = v - mean
	}
	inverse = float32(1 / math.Sqrt(float64(dot(xhat, xhat)*scale)+normEps))
	for j := range y {
		v := xhat[j] * inverse
		xhat[j] = v
		y[j] = float32(v*gamma[j]) + beta[j]
	}
	return inverse
}

func (gonumKernels) normalizeGradient(d, xhat, gamma, weight []float32, inverse float32) {
	scale := 1 / float32(len(d))
	xhat, gamma, weight = xhat[:len(d)], gamma[:len(d)], weight[:len(d)]
	for j, g := range d {
		weight[j] += float32(g * xhat[j])
		d[j] = g * gamma[j]
	}
	mean, slope := sum(d)*scale, dot(d, xhat)*scale
	for j, g := range d {
		d[j] = (g - mean - float32(xhat[j]*slope)) * inverse
	}
}

// sum adds the elements of x in four sums, in one order on all machines.
func sum(x []float32) float32 {
	var a, b, c, d float32
	for ; len(x) >= 4; x = x[4:] {
		a += x[0]
		b += x[1]
		c += x[2]
		d += x[3]
	}
	for _, v := range x {
		a += v
	}
	return (a + b) + (c + d)
}

// dot is the inner product of x and y, in the order of sum. The conversions keep the compiler
// from fusing products with sums.
func dot(x, y []float32) float32 {
	var a, b, c, d float32
	for len(x) >= 4 && len(y) >= 4 {
		a += float32(x[0] * y[0])
		b += float32(x[1] * y[1])
		c += float32(x[2] * y[2])
		d += float32(x[3] * y[3])
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		a += float32(v * y[i])
	}
	return (a + b) + (c + d)
}
