package fused

// An activation is max(x, 0) or tanh(x). It works in place.
type activation struct{ relu bool }

var _ module = activation{}

func (activation) grow(_ int, x []float32) []float32 { return x }

func (a activation) forward(w *worker, _, y []float32) { w.k.activate(y, a.relu) }

func (a activation) backward(w *worker, _, y, d []float32) []float32 {
	w.k.derive(d, y, a.relu)
	return d
}
