package graph

import (
	"fmt"

	"github.com/kubernasium/kubernasium/models"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// aggregate returns the messages that nodes gather from their neighbours, as products with a dense
// adjacency matrix for each observation.
func (b *builder) aggregate(kind string, x *G.Node) (*G.Node, error) {
	rows, nodes, width := b.b.rows, b.spec.Nodes.N, x.Shape()[1]
	name := "adjacency " + kind
	if rows == 1 {
		return G.Mul(b.input(name, b.b.adjacency[kind], nodes, nodes), x)
	}
	if b.named[name] == nil {
		shape := tensor.Shape{rows, nodes, nodes}
		b.named[name] = G.NewTensor(b.g, tensor.Float32, 3, G.WithShape(shape...), G.WithName(name),
			G.WithValue(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(b.b.adjacency[kind]))))
	}
	e := &chain{}
	x = e.one(reshape(rows, nodes, width), x)
	z := e.one(func(x *G.Node) (*G.Node, error) { return G.BatchedMatMul(b.named[name], x) }, x)
	return e.one(reshape(rows*nodes, width), z), e.err
}

func reshape(shape ...int) func(*G.Node) (*G.Node, error) {
	return func(x *G.Node) (*G.Node, error) { return G.Reshape(x, shape) }
}

// pool returns the mean of a tower's results over nodes, the maximum or both side by side.
func (b *builder) pool(kind string, from int, x *G.Node) (*G.Node, error) {
	rows, nodes := b.b.rows, b.spec.Nodes.N
	e := &chain{}
	var parts G.Nodes
	for _, p := range models.Poolings(kind) {
		if p == models.Mean {
			parts = append(parts, e.do(G.Mul, b.sum("average", 1/float32(nodes), rows, nodes), x))
		} else {
			parts = append(parts, b.max(e, from, x))
		}
	}
	if e.err != nil || len(parts) == 1 {
		return parts[0], e.err
	}
	return G.Concat(1, parts...)
}

// max returns the maximum over nodes. Gorgonia's maximum passes the whole gradient to each of
// several equal maxima, and nodes with equal neighbourhoods are equal. So the backward graph sums
// the elements that the forward graph has selected.
func (b *builder) max(e *chain, from int, x *G.Node) *G.Node {
	rows, nodes, width := b.b.rows, b.spec.Nodes.N, x.Shape()[1]
	s := &b.b.selections[from]
	if b.detached {
		chosen := e.do(G.HadamardProd, x, b.input(fmt.Sprint("maxima of tower ", from), s.chosen, rows*nodes, width))
		return e.do(G.Mul, b.sum("sum", 1, rows, nodes), chosen)
	}
	if !b.keeps[from] {
		b.keeps[from] = true
		b.sources = append(b.sources, source{x, s.results})
	}
	cube := e.one(reshape(rows, nodes, width), x)
	top := e.one(func(x *G.Node) (*G.Node, error) { return G.Max(x, 1) }, cube)
	return e.one(reshape(rows, width), top)
}

// sum returns the matrix of shape (rows, rows·nodes) that adds up nodes times a number.
func (b *builder) sum(name string, scale float32, rows, nodes int) *G.Node {
	data := make([]float32, rows*rows*nodes)
	for r := range rows {
		for i := range nodes {
			data[r*rows*nodes+r*nodes+i] = scale
		}
	}
	return b.input(name+" over nodes", data, rows, rows*nodes)
}

// nodes returns the rows of nodes with the globals and, unless beside is nil, the results of an
// LSTM. Products with parts of the identity matrix join both.
func (b *builder) nodes(beside *G.Node) (*G.Node, error) {
	rows, nodes, width := b.b.rows, b.spec.Nodes.N, b.spec.NodeInputs()
	x := b.input("nodes", b.b.nodeRows, rows*nodes, width)
	if beside == nil {
		return x, nil
	}
	e := &chain{}
	all := width + beside.Shape()[1]
	each := make([]float32, rows*nodes*rows) // repeats a row for each node
	for i := range rows * nodes {
		each[i*rows+i/nodes] = 1
	}
	beside = e.do(G.Mul, b.input("each node", each, rows*nodes, rows), e.do(G.Mul, beside, b.place(beside.Shape()[1], width, all)))
	return e.do(G.Add, e.do(G.Mul, x, b.place(width, 0, all)), beside), e.err
}

// lstm returns the results of all steps of an LSTM, of shape (rows, Hidden).
func (b *builder) lstm(i int) (*G.Node, error) {
	if b.lstms[i] != nil {
		return b.lstms[i], nil
	}
	l := b.spec.LSTMs[i]
	obs, inputs, name := b.b.obs, b.spec.LSTMInputs(i), "obs"
	if l.Pool != "" {
		obs, name = b.b.pooled[l.Pool], l.Pool+" of nodes"
	}
	if l.Layers == 0 {
		y, err := b.dense(l.Name, b.input(name, obs, b.b.rows, inputs))
		b.lstms[i] = y
		return y, err
	}
	n := b.b.rows / b.b.steps
	x := make(G.Nodes, b.b.steps)
	for t := range x {
		size := n * inputs
		x[t] = b.input(fmt.Sprint(name, " in step ", t), obs[t*size:(t+1)*size], n, inputs)
	}
	first := 0 // of the states of this LSTM
	for _, before := range b.spec.LSTMs[:i] {
		first += 2 * before.Layers
	}
	for k := range l.Layers {
		var err error
		if x, err = b.cell(l, k, x, first+2*k); err != nil {
			return nil, err
		}
	}
	y := x[0]
	if len(x) > 1 {
		var err error
		if y, err = G.Concat(0, x...); err != nil {
			return nil, err
		}
	}
	b.lstms[i] = y
	return y, nil
}

// gates are the parameters of one gate of a cell.
type gate struct{ ih, hh, bias *G.Node }

// cell returns the results of each step of layer k.
func (b *builder) cell(l models.LSTM, k int, x G.Nodes, state int) (G.Nodes, error) {
	n, H := x[0].Shape()[0], l.Hidden
	e := &chain{}
	var gates [4]gate
	for j := range gates {
		gates[j] = b.gate(e, l, k, j, n)
	}
	h := b.input(fmt.Sprint("state ", state), b.b.state[state], n, H)
	c := b.input(fmt.Sprint("state ", state+1), b.b.state[state+1], n, H)
	y := make(G.Nodes, len(x))
	for t := range x {
		keep := e.do(G.Mul, b.input(fmt.Sprint("keep ", t), b.b.keep[t*n:(t+1)*n], n, 1), b.constant(1, 1, H))
		h, c = e.do(G.HadamardProd, h, keep), e.do(G.HadamardProd, c, keep)
		sum := func(j int) *G.Node {
			s := e.do(G.Add, e.do(G.Mul, x[t], gates[j].ih), e.do(G.Mul, h, gates[j].hh))
			return e.do(G.Add, s, gates[j].bias)
		}
		in, forget := e.one(G.Sigmoid, sum(0)), e.one(G.Sigmoid, sum(1))
		candidate, out := e.one(G.Tanh, sum(2)), e.one(G.Sigmoid, sum(3))
		c = e.do(G.Add, e.do(G.HadamardProd, forget, c), e.do(G.HadamardProd, in, candidate))
		h = e.do(G.HadamardProd, out, e.one(G.Tanh, c))
		y[t] = h
	}
	if e.err == nil && !b.detached {
		b.sources = append(b.sources, source{h, b.b.last[state]}, source{c, b.b.last[state+1]})
	}
	return y, e.err
}

// gate returns the parameters of gate j.
func (b *builder) gate(e *chain, l models.LSTM, k, j, n int) gate {
	cut := func(kind string) *G.Node { return b.columns(e, fmt.Sprintf("%s.%s_l%d", l.Name, kind, k), j, l.Hidden) }
	bias := e.do(G.Add, cut("bias_ih"), cut("bias_hh"))
	return gate{ih: cut("weight_ih"), hh: cut("weight_hh"), bias: e.do(G.Mul, b.constant(1, n, 1), bias)}
}

// columns returns the j-th block of width columns. For a single row or column it multiplies by
// columns of the identity matrix, since Gorgonia's slices lose a dimension there.
func (b *builder) columns(e *chain, name string, j, width int) *G.Node {
	p := b.param(name)
	shape := p.Shape()
	if shape[0] > 1 && width > 1 {
		return e.one(func(x *G.Node) (*G.Node, error) { return G.Slice(x, nil, G.S(j*width, (j+1)*width)) }, p)
	}
	data := make([]float32, shape[1]*width)
	for i := range width {
		data[(j*width+i)*width+i] = 1
	}
	return e.do(G.Mul, p, b.input(fmt.Sprintf("part %d of %d columns", j, width), data, shape[1], width))
}

// place returns the matrix that places columns among all columns, from one on, by a product.
func (b *builder) place(columns, from, all int) *G.Node {
	data := make([]float32, columns*all)
	for i := range columns {
		data[i*all+from+i] = 1
	}
	return b.input(fmt.Sprintf("%d of %d columns from %d", columns, all, from), data, columns, all)
}
