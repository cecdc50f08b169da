package graph

import (
	"errors"

	"github.com/kubernasium/kubernasium/models"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A batch holds the graphs and buffers for one number of rows. The graphs' input and output
// tensors lie on these buffers, so that a run needs no new tensors of them.
type batch struct {
	rows     int
	obs      []float32
	ones     []float32   // a column of 1, which turns biases into a matrix product
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
	read []G.Value // where the graph's Read nodes copy results to; Gorgonia holds their addresses
}

func (p *program) run() error {
	err := p.vm.RunAll()
	p.vm.Reset()
	return err
}

func newBatch(spec models.Spec, params []models.Param, rows int) (*batch, error) {
	b := &batch{
		rows:    rows,
		obs:     make([]float32, rows*spec.Inputs),
		ones:    make([]float32, rows),
		outputs: make([]float32, rows*spec.Outputs()),
	}
	for i := range b.ones {
		b.ones[i] = 1
	}
	for _, h := range spec.Heads {
		b.sizes = append(b.sizes, h.Size)
		b.head = append(b.head, make([]float32, rows*h.Size))
		b.dHead = append(b.dHead, make([]float32, rows*h.Size))
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

// splitGradients is the reverse of joinOutputs, for the gradients.
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
	bld := newBuilder(params, b)
	heads, err := bld.network(spec)
	if err != nil {
		return nil, err
	}
	p := &program{read: make([]G.Value, len(heads))}
	for i, h := range heads {
		p.read[i] = dense(b.head[i], b.rows, b.sizes[i])
		G.Read(h, &p.read[i])
	}
	p.vm = G.NewTapeMachine(bld.g)
	return p, nil
}

// compileBackward builds the gradients from those of the heads, which are inputs, so that no
// loss has to be computed. They are read straight into Param.Grad.
func compileBackward(spec models.Spec, params []models.Param, b *batch) (*program, error) {
	bld := newBuilder(params, b)
	heads, err := bld.network(spec)
	if err != nil {
		return nil, err
	}
	dHeads := make(G.Nodes, len(heads))
	for i := range heads {
		dHeads[i] = bld.input("gradient of "+spec.Heads[i].Name, b.dHead[i], b.rows, b.sizes[i])
	}
	grads, err := G.Backpropagate(heads, dHeads, bld.params)
	if err != nil {
		return nil, err
	}
	p := &program{read: make([]G.Value, len(grads))}
	reads := make(G.Nodes, len(grads))
	for i, grad := range grads {
		rows, cols := matrixShape(params[i])
		p.read[i] = dense(params[i].Grad, rows, cols)
		reads[i] = G.Read(grad, &p.read[i])
	}
	// Gorgonia builds the gradients of the observations, too. Compiling only what the Read
	// nodes need leaves them out, with a fifth of the work.
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
	g         *G.ExprGraph
	obs, ones *G.Node
	params    G.Nodes
	next      int // of params
}

func newBuilder(params []models.Param, b *batch) *builder {
	bld := &builder{g: G.NewGraph()}
	bld.obs = bld.input("obs", b.obs, b.rows, len(b.obs)/b.rows)
	bld.ones = bld.input("ones", b.ones, b.rows, 1)
	for _, p := range params {
		rows, cols := matrixShape(p)
		bld.params = append(bld.params, bld.input(p.Name, p.Value, rows, cols))
	}
	return bld
}

// input adds a matrix whose elements are read from data whenever the graph runs. Nodes of one
// graph need different names, or Gorgonia takes them for one.
func (b *builder) input(name string, data []float32, rows, cols int) *G.Node {
	return G.NewMatrix(b.g, tensor.Float32, G.WithShape(rows, cols), G.WithName(name), G.WithValue(dense(data, rows, cols)))
}

// network returns the heads. It takes the parameters in the order of models.ParamLayout.
func (b *builder) network(spec models.Spec) (G.Nodes, error) {
	towers := make(G.Nodes, len(spec.Towers))
	for i, t := range spec.Towers {
		h := b.obs
		for range t.Hidden {
			z, err := b.dense(h)
			if err != nil {
				return nil, err
			}
			if h, err = activate(t.Activation, z); err != nil {
				return nil, err
			}
		}
		towers[i] = h
	}
	heads := make(G.Nodes, len(spec.Heads))
	for i, h := range spec.Heads {
		var err error
		if heads[i], err = b.dense(towers[h.Tower]); err != nil {
			return nil, err
		}
	}
	return heads, nil
}

// dense applies the next weight and bias. The bias is multiplied by a column of ones, because
// Gorgonia's broadcast needs another graph for one row than for many. Both are equally fast.
func (b *builder) dense(x *G.Node) (*G.Node, error) {
	weight, bias := b.params[b.next], b.params[b.next+1]
	b.next += 2
	xw, err := G.Mul(x, weight)
	if err != nil {
		return nil, err
	}
	rows, err := G.Mul(b.ones, bias)
	if err != nil {
		return nil, err
	}
	return G.Add(xw, rows)
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
