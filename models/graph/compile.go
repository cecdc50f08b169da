package graph

import (
	"errors"
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/kubernasium/kubernasium/models"
)

// A batch holds the graphs and buffers for one number of rows and steps. The graphs' input and
// output tensors use these buffers, so a run needs no new tensors.
type batch struct {
	inputs
	outputs  []float32   // rows of all heads
	head     [][]float32 // for each head (rows, size)
	dHead    [][]float32 // gradients of head
	sizes    []int
	forward  *program
	backward *program // nil before the first Backward
}

// A program is a compiled graph.
type program struct {
	vm   G.VM
	read []G.Value // targets of the graph's Read nodes; Gorgonia holds their addresses
}

func (p *program) run() error {
	err := p.vm.RunAll()
	p.vm.Reset()
	return err
}

func newBatch(spec models.Spec, params []models.Param, steps, n int) (*batch, error) {
	b := &batch{inputs: newInputs(spec, steps, n), outputs: make([]float32, steps*n*spec.Outputs())}
	for i := range spec.Heads {
		size := spec.HeadWidth(i)
		b.sizes = append(b.sizes, size)
		b.head = append(b.head, make([]float32, b.rows*size))
		b.dHead = append(b.dHead, make([]float32, b.rows*size))
	}
	var err error
	b.forward, err = compileForward(spec, params, b)
	return b, err
}

func (b *batch) close() error {
	err := b.forward.vm.Close()
	if b.backward != nil {
		err = errors.Join(err, b.backward.vm.Close())
	}
	return err
}

// joinOutputs copies the heads' results side by side into the rows of outputs.
func (b *batch) joinOutputs() {
	width, offset := len(b.outputs)/b.rows, 0
	for h, size := range b.sizes {
		for i := range b.rows {
			copy(b.outputs[i*width+offset:][:size], b.head[h][i*size:])
		}
		offset += size
	}
}

// splitGradients is the inverse of joinOutputs, for the gradients.
func (b *batch) splitGradients(dOutputs []float32) {
	width, offset := len(dOutputs)/b.rows, 0
	for h, size := range b.sizes {
		for i := range b.rows {
			copy(b.dHead[h][i*size:][:size], dOutputs[i*width+offset:])
		}
		offset += size
	}
}

func compileForward(spec models.Spec, params []models.Param, b *batch) (*program, error) {
	bld := newBuilder(spec, params, b, false)
	heads, err := bld.heads()
	if err != nil {
		return nil, err
	}
	results := heads
	buffers := append([][]float32(nil), b.head...)
	for _, s := range bld.sources {
		results, buffers = append(results, s.node), append(buffers, s.buffer)
	}
	p := &program{read: make([]G.Value, len(results))}
	for i, node := range results {
		shape := node.Shape()
		p.read[i] = dense(buffers[i], shape[0], shape[1])
		G.Read(node, &p.read[i])
	}
	p.vm = G.NewTapeMachine(bld.g)
	return p, nil
}

// compileBackward builds the graph of the parameters' gradients from the heads' gradients, which
// are inputs, so no loss is computed. The graph writes directly into Param.Grad.
func compileBackward(spec models.Spec, params []models.Param, b *batch) (*program, error) {
	bld := newBuilder(spec, params, b, true)
	heads, err := bld.heads()
	if err != nil {
		return nil, err
	}
	dHeads := make(G.Nodes, len(heads))
	for i, h := range heads {
		shape := h.Shape()
		dHeads[i] = bld.input("gradient of "+spec.Heads[i].Name, b.dHead[i], shape[0], shape[1])
	}
	var reached []models.Param // without those that only detached towers read
	var nodes G.Nodes
	for _, p := range params {
		clear(p.Grad)
		if node := bld.params[p.Name]; node != nil {
			reached, nodes = append(reached, p), append(nodes, node)
		}
	}
	grads, err := G.Backpropagate(heads, dHeads, nodes)
	if err != nil {
		return nil, err
	}
	p := &program{read: make([]G.Value, len(grads))}
	reads := make(G.Nodes, len(grads))
	for i, grad := range grads {
		rows, cols := matrixShape(reached[i])
		p.read[i] = dense(reached[i].Grad, rows, cols)
		reads[i] = G.Read(grad, &p.read[i])
	}
	// Gorgonia also builds the gradients of the observations. Compiling only what the Read nodes
	// need drops them, and with them a fifth of the work.
	needed := bld.g.ExactSubgraphRoots(reads...)
	prog, registers, err := G.CompileFunction(bld.g, needed.Inputs(), reads)
	if err != nil {
		return nil, err
	}
	p.vm = G.NewTapeMachine(bld.g, G.WithPrecompiled(prog, registers))
	return p, nil
}

// A builder adds the layers of a network to a graph.
type builder struct {
	g      *G.ExprGraph
	spec   models.Spec
	b      *batch
	values map[string]models.Param

	params map[string]*G.Node // by name, if used
	named  map[string]*G.Node // other inputs
	towers []*G.Node          // nil before their first use
	lstms  []*G.Node

	// detached makes towers with Detach read the values that the forward graph stored, since
	// Gorgonia has no operation that stops a gradient.
	detached bool
	sources  []source     // of the forward graph: values read in addition to the heads
	keeps    map[int]bool // towers that are among the sources
}

// A source is a node with a value that Forward keeps.
type source struct {
	node   *G.Node
	buffer []float32
}

func newBuilder(spec models.Spec, params []models.Param, b *batch, detached bool) *builder {
	bld := &builder{
		g: G.NewGraph(), spec: spec, b: b, values: map[string]models.Param{},
		params: map[string]*G.Node{}, named: map[string]*G.Node{},
		towers: make([]*G.Node, len(spec.Towers)), lstms: make([]*G.Node, len(spec.LSTMs)), detached: detached, keeps: map[int]bool{},
	}
	for _, p := range params {
		bld.values[p.Name] = p
	}
	return bld
}

// input returns a matrix whose elements are read from data in each run of the graph. Nodes of one
// graph need different names, or Gorgonia merges them.
func (b *builder) input(name string, data []float32, rows, cols int) *G.Node {
	if node := b.named[name]; node != nil {
		return node
	}
	b.named[name] = G.NewMatrix(b.g, tensor.Float32, G.WithShape(rows, cols), G.WithName(name), G.WithValue(dense(data, rows, cols)))
	return b.named[name]
}

// constant returns a matrix all of whose elements are value.
func (b *builder) constant(value float32, rows, cols int) *G.Node {
	name := fmt.Sprintf("%v of %d×%d", value, rows, cols)
	if node := b.named[name]; node != nil {
		return node
	}
	return b.input(name, slices.Repeat([]float32{value}, rows*cols), rows, cols)
}

func (b *builder) param(name string) *G.Node {
	if b.params[name] == nil {
		p := b.values[name]
		rows, cols := matrixShape(p)
		b.params[name] = b.input(name, p.Value, rows, cols)
	}
	return b.params[name]
}

// heads returns the heads, of shape (items, size).
func (b *builder) heads() (G.Nodes, error) {
	heads := make(G.Nodes, len(b.spec.Heads))
	for i, h := range b.spec.Heads {
		var err error
		if h.Free {
			heads[i], err = b.repeat(h.Name, b.b.rows)
		} else {
			var x *G.Node
			if x, err = b.tower(h.Tower); err == nil {
				heads[i], err = b.dense(h.Name, x)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return heads, nil
}

// tower returns the results of a tower, of shape (items, width).
func (b *builder) tower(i int) (*G.Node, error) {
	if b.towers[i] != nil {
		return b.towers[i], nil
	}
	t := b.spec.Towers[i]
	x, err := b.read(i)
	if err != nil {
		return nil, err
	}
	step := 2
	if t.LayerNorm {
		step = 3
	}
	for j := range t.Hidden {
		if x, err = b.layer(t.Layer, fmt.Sprintf("%s.%d", t.Name, step*j), x); err != nil {
			return nil, err
		}
		if t.LayerNorm {
			if x, err = b.norm(fmt.Sprintf("%s.%d", t.Name, step*j+1), x); err != nil {
				return nil, err
			}
		}
		if x, err = activate(t.Activation, x); err != nil {
			return nil, err
		}
	}
	b.towers[i] = x
	return x, nil
}

// read returns the input of a tower.
func (b *builder) read(i int) (*G.Node, error) {
	t := b.spec.Towers[i]
	lstm, from := b.spec.Source(i)
	if lstm < 0 && from < 0 && !b.spec.PerNode(i) {
		return b.input("obs", b.b.obs, b.b.rows, b.spec.Inputs), nil
	}
	var x *G.Node // a gradient may reach it
	var err error
	switch {
	case t.Detach && b.detached:
		x = b.input("detached "+t.Name, b.b.detached[i], b.b.rows, len(b.b.detached[i])/b.b.rows)
	case lstm >= 0:
		x, err = b.lstm(lstm)
	case from >= 0:
		if x, err = b.tower(from); err == nil {
			x, err = b.pool(t.Pool, from, x)
		}
	}
	if err != nil {
		return nil, err
	}
	if t.Detach && !b.detached {
		b.sources = append(b.sources, source{x, b.b.detached[i]})
	}
	if b.spec.PerNode(i) {
		return b.nodes(x)
	}
	return x, nil
}

func (b *builder) layer(kind, name string, x *G.Node) (*G.Node, error) {
	if kind == "" {
		return b.dense(name, x)
	}
	z, err := b.aggregate(kind, x)
	if err != nil {
		return nil, err
	}
	if kind == models.GCN {
		return b.affine(name+".lin.weight", name+".bias", z)
	}
	y, err := b.affine(name+".lin_l.weight", name+".lin_l.bias", z)
	if err != nil {
		return nil, err
	}
	own, err := G.Mul(x, b.param(name+".lin_r.weight"))
	if err != nil {
		return nil, err
	}
	return G.Add(y, own)
}

func (b *builder) dense(name string, x *G.Node) (*G.Node, error) {
	return b.affine(name+".weight", name+".bias", x)
}

func (b *builder) affine(weight, bias string, x *G.Node) (*G.Node, error) {
	xw, err := G.Mul(x, b.param(weight))
	if err != nil {
		return nil, err
	}
	rows, err := b.repeat(bias, x.Shape()[0])
	if err != nil {
		return nil, err
	}
	return G.Add(xw, rows)
}

// repeat returns rows that all equal the parameter. It multiplies by a column of ones, because
// Gorgonia's broadcast needs a different graph for a single row. Both are equally fast.
func (b *builder) repeat(name string, rows int) (*G.Node, error) {
	return G.Mul(b.constant(1, rows, 1), b.param(name))
}

// norm is torch.nn.LayerNorm. Products with a square matrix of 1/width give each row's mean in
// each column.
func (b *builder) norm(name string, x *G.Node) (*G.Node, error) {
	rows, width := x.Shape()[0], x.Shape()[1]
	mean := b.constant(1/float32(width), width, width)
	e := &chain{}
	centered := e.do(G.Sub, x, e.do(G.Mul, x, mean))
	variance := e.do(G.Mul, e.do(G.HadamardProd, centered, centered), mean)
	deviation := e.one(G.Sqrt, e.do(G.Add, variance, b.constant(1e-5, rows, width)))
	xhat := e.do(G.HadamardDiv, centered, deviation)
	ones := b.constant(1, rows, 1)
	y := e.do(G.HadamardProd, xhat, e.do(G.Mul, ones, b.param(name+".weight")))
	return e.do(G.Add, y, e.do(G.Mul, ones, b.param(name+".bias"))), e.err
}

// A chain applies operations until one of them fails.
type chain struct{ err error }

func (e *chain) do(f func(a, b *G.Node) (*G.Node, error), x, y *G.Node) *G.Node {
	return e.one(func(x *G.Node) (*G.Node, error) { return f(x, y) }, x)
}

func (e *chain) one(f func(a *G.Node) (*G.Node, error), x *G.Node) *G.Node {
	if e.err != nil {
		return nil
	}
	var y *G.Node
	y, e.err = f(x)
	return y
}

func activate(name string, x *G.Node) (*G.Node, error) {
	if name == models.Tanh {
		return G.Tanh(x)
	}
	// Not G.Rectify, whose derivative at 0 is 1 where PyTorch's is 0: inputs of zero are common.
	positive, err := G.Gt(x, G.NewConstant(float32(0)), true)
	if err != nil {
		return nil, err
	}
	return G.HadamardProd(x, positive)
}

func matrixShape(p models.Param) (rows, cols int) {
	if len(p.Shape) == 2 {
		return p.Shape[0], p.Shape[1]
	}
	return 1, p.Shape[0]
}

// dense returns a tensor on the memory of data.
func dense(data []float32, rows, cols int) *tensor.Dense {
	return tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(data))
}
