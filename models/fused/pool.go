package fused

import "github.com/kubernasium/kubernasium/models"

// A pool writes, for each observation, the poolings of a node tower's results side by side.
type pool struct {
	from     *tower
	width    int // of the node tower's results
	poolings []pooling
}

var _ module = (*pool)(nil)

func (p *pool) grow(rows int, _ []float32) []float32 {
	for _, of := range p.poolings {
		of.grow(rows)
	}
	return aligned(rows * len(p.poolings) * p.width)
}

func (p *pool) forward(w *worker, _, y []float32) {
	x, size := p.from.top().y, p.from.each*p.width
	for r := w.lo; r < w.lo+w.rows; r++ {
		for _, of := range p.poolings {
			of.forward(w.k, y[:p.width], x[r*size:(r+1)*size], r)
			y = y[p.width:]
		}
	}
}

// backward adds the gradients of the node tower's results to the worker's tops, and returns nil.
func (p *pool) backward(w *worker, _, _, d []float32) []float32 {
	dx, size := w.tops[p.from.index], p.from.each*p.width
	for r := range w.rows {
		for _, of := range p.poolings {
			of.backward(w.k, dx[r*size:(r+1)*size], d[:p.width], w.lo+r)
			d = d[p.width:]
		}
	}
	return nil
}

// A pooling reduces the rows x of an observation's nodes to one row y.
type pooling interface {
	grow(rows int) // observations
	forward(k kernels, y, x []float32, row int)
	backward(k kernels, dx, d []float32, row int) // adds to dx
}

// newPoolings returns the poolings of pool, such as [models.Mean].
func newPoolings(way string, nodes, width int) []pooling {
	var all []pooling
	for _, p := range models.Poolings(way) {
		if p == models.Mean {
			all = append(all, mean{nodes})
		} else {
			all = append(all, &maximum{width: width})
		}
	}
	return all
}

type mean struct{ nodes int }

func (mean) grow(int) {}

func (m mean) forward(k kernels, y, x []float32, _ int) {
	clear(y)
	k.sumRows(y, x, m.nodes, len(y))
	scale := 1 / float32(m.nodes)
	for j := range y {
		y[j] *= scale
	}
}

func (m mean) backward(k kernels, dx, d []float32, _ int) {
	scale, width := 1/float32(m.nodes), len(d)
	for i := range m.nodes {
		k.addScaled(dx[i*width:(i+1)*width], d, scale)
	}
}

type maximum struct {
	width  int
	argmax []int32 // (rows, width) nodes of the maxima
}

func (m *maximum) grow(rows int) { m.argmax = make([]int32, rows*m.width) }

func (m *maximum) forward(k kernels, y, x []float32, row int) { k.maxRows(y, m.of(row), x) }

func (m *maximum) backward(_ kernels, dx, d []float32, row int) {
	for j, i := range m.of(row) {
		dx[int(i)*m.width+j] += d[j]
	}
}

func (m *maximum) of(row int) []int32 { return m.argmax[row*m.width : (row+1)*m.width] }
