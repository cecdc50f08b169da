package fused

import "github.com/kubernasium/kubernasium/models"

// nodeRows holds copies of the globals of observations and, for SAGE and GCN layers, each node's
// row joined with the globals.
type nodeRows struct {
	models.Nodes
	inputs int            // of an observation
	ranges []models.Range // of the globals in an observation
	width  int            // of a node's row with the globals
	joined bool

	globals []float32 // (observations, width of the globals)
	rows    []float32 // (observations, N, width); empty unless joined
}

func newNodeRows(spec models.Spec) *nodeRows {
	n := &nodeRows{Nodes: *spec.Nodes, inputs: spec.Inputs, ranges: spec.Globals(), width: spec.NodeInputs()}
	for _, t := range spec.Towers {
		n.joined = n.joined || t.Layer != ""
	}
	return n
}

func (n *nodeRows) grow(rows int) {
	n.globals = aligned(rows * (n.width - n.Features))
	if n.joined {
		n.rows = aligned(rows * n.N * n.width)
	}
}

// gather copies from observations lo to hi.
func (n *nodeRows) gather(observations []float32, lo, hi int) {
	width := n.width - n.Features
	for r := lo; r < hi; r++ {
		obs, globals := observations[r*n.inputs:(r+1)*n.inputs], n.globals[r*width:(r+1)*width]
		at := 0
		for _, g := range n.ranges {
			at += copy(globals[at:], obs[g.Start:g.End])
		}
		if !n.joined {
			continue
		}
		for i := range n.N {
			x := n.rows[(r*n.N+i)*n.width:]
			copy(x, obs[n.Offset+i*n.Features:][:n.Features])
			copy(x[n.Features:], globals)
		}
	}
}

// pooledRows is the input of an LSTM: the globals of observations, followed by the pooled rows of their nodes.
type pooledRows struct {
	net      *Network
	width    int
	poolings []pooling
}

var _ module = (*pooledRows)(nil)

func newPooledRows(n *Network, pool string) *pooledRows {
	p := &pooledRows{net: n, poolings: newPoolings(pool, n.nodes.N, n.nodes.Features)}
	p.width = n.nodes.width + (len(p.poolings)-1)*n.nodes.Features
	for _, of := range p.poolings {
		of.grow(1) // there is no backward pass, so one row suffices
	}
	return p
}

func (p *pooledRows) grow(rows int, _ []float32) []float32 { return aligned(rows * p.width) }

func (p *pooledRows) forward(w *worker, _, y []float32) {
	n := p.net.nodes
	for r := range w.rows {
		obs := p.net.obs[r*n.inputs : (r+1)*n.inputs]
		for _, g := range n.ranges {
			y = y[copy(y, obs[g.Start:g.End]):]
		}
		for _, of := range p.poolings {
			of.forward(w.k, y[:n.Features], obs[n.Offset:n.Offset+n.N*n.Features], 0)
			y = y[n.Features:]
		}
	}
}

func (p *pooledRows) backward(_ *worker, _, _, _ []float32) []float32 { return nil }
