package fused

// The modules of this file begin a stack: they have no x.

// A given module passes on inputs without gradient: observations, or rows of nodes.
type given struct{ memory func() []float32 }

var _ module = given{}

func (g given) grow(int, []float32) []float32 { return g.memory() }

func (given) forward(_ *worker, _, _ []float32) {}

func (given) backward(_ *worker, _, _, _ []float32) []float32 { return nil }

// A memory passes on the results of an LSTM.
type memory struct {
	given
	lstm *lstm
}

var _ module = memory{}

func (m memory) backward(w *worker, _, _, d []float32) []float32 {
	width := m.lstm.width
	w.k.add(m.lstm.dOutput[w.lo*width:(w.lo+w.rows)*width], d)
	return nil
}

// A beside joins each node's row with the results of an LSTM.
type beside struct {
	nodes *nodeRows
	lstm  *lstm
}

var _ module = (*beside)(nil)

func (b *beside) width() int { return b.nodes.width + b.lstm.width }

func (b *beside) grow(items int, _ []float32) []float32 { return aligned(items * b.width()) }

func (b *beside) forward(w *worker, _, y []float32) {
	left, right := b.nodes.width, b.lstm.width
	rows, results := b.nodes.rows[w.at*left:], b.lstm.results()[w.lo*right:]
	for r := range w.rows {
		for i := r * b.nodes.N; i < (r+1)*b.nodes.N; i++ {
			to := y[i*(left+right) : (i+1)*(left+right)]
			copy(to, rows[i*left:(i+1)*left])
			copy(to[left:], results[r*right:(r+1)*right])
		}
	}
}

func (b *beside) backward(w *worker, _, _, d []float32) []float32 {
	width, out, n := b.width(), b.lstm.width, b.nodes.N
	for r := range w.rows {
		row := w.lo + r
		w.k.sumRows(b.lstm.dOutput[row*out:(row+1)*out], d[r*n*width+b.nodes.width:], n, width)
	}
	return nil
}
