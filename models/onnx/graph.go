package onnx

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// graph is the content of a model.
type graph struct {
	spec         models.Spec
	inputs       []value
	nodes        []node
	initializers []safetensors.Tensor
	outputs      []value

	parts     []part
	known     map[string]bool // names of initializers and results added so far
	anyNodes  bool            // the model accepts any number of nodes
	rows      string          // the rows of nodes, of shape (N, nodes, features)
	globals   string          // the numbers that belong to no node or edge; empty if there are none
	memory    []string        // results of the LSTMs
	nextState []string        // pieces of the state after the step
}

// node is an operator.
type node struct {
	op, name string
	inputs   []string
	output   string
	ints     map[string]int64   // attributes that are numbers
	lists    map[string][]int64 // attributes that are lists
}

// build adds the nodes of a model.
func build(m Model) (*graph, error) {
	spec := m.Spec
	if err := checkSupported(spec); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if err := checkParams(m); err != nil {
		return nil, err
	}
	var f models.File // converts parameters to PyTorch's layout
	f.PutParams(m.Params)
	for _, h := range spec.Heads {
		if h.Free { // no output depends on a free head
			f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == h.Name })
		}
	}
	g := &graph{spec: spec, initializers: f.Tensors, known: map[string]bool{}}
	if err := g.addParts(m.Parts); err != nil {
		return nil, err
	}
	if m.Scaling != nil {
		if err := g.scale(*m.Scaling); err != nil {
			return nil, err
		}
	}
	if spec.Nodes != nil {
		g.readNodes()
	}
	g.lstms()
	towers := make([]string, len(spec.Towers)) // names of the towers' results
	for i := range spec.Towers {
		towers[i] = g.tower(i, towers)
	}
	for i, h := range spec.Heads {
		if !h.Free { // free heads are no outputs
			g.head(i, towers[h.Tower])
		}
	}
	for _, o := range m.Outputs {
		if err := g.output(o); err != nil {
			return nil, err
		}
	}
	if len(g.outputs) == 0 {
		return nil, fmt.Errorf("onnx: no outputs, want at least one")
	}
	g.stateOutput()
	return g, nil
}

func checkParams(m Model) error {
	want := models.ParamLayout(m.Spec)
	if len(want) != len(m.Params) {
		return fmt.Errorf("%w: %d parameters, want %d", models.ErrMismatch, len(m.Params), len(want))
	}
	for i, p := range want {
		if m.Params[i].Name != p.Name || !slices.Equal(m.Params[i].Shape, p.Shape) {
			return fmt.Errorf("%w: parameter %s%v, want %s%v", models.ErrMismatch, m.Params[i].Name, m.Params[i].Shape, p.Name, p.Shape)
		}
	}
	return nil
}

// op adds an operator and returns the name of its result. If that name exists already, op adds
// nothing.
func (g *graph) op(op, name string, inputs ...string) string {
	return g.opInts(op, name, nil, inputs...)
}

// opInts is op with attributes.
func (g *graph) opInts(op, name string, ints map[string]int64, inputs ...string) string {
	if !g.known[name] {
		g.known[name] = true
		g.nodes = append(g.nodes, node{op: op, name: name, inputs: inputs, output: name, ints: ints})
	}
	return name
}

// over adds an operator that reduces the given axis.
func (g *graph) over(op, name, x string, axis int64) string {
	if !g.known[name] {
		g.known[name] = true
		g.nodes = append(g.nodes, node{op: op, name: name, inputs: []string{x}, output: name,
			ints: map[string]int64{"keepdims": 0}, lists: map[string][]int64{"axes": {axis}}})
	}
	return name
}

// ints returns the name of a constant.
func (g *graph) ints(x ...int64) string {
	name := fmt.Sprintf("int64%v", x)
	return g.constant(name, x, len(x))
}

// number returns the name of a scalar constant.
func (g *graph) number(x float32) string {
	return g.constant(fmt.Sprintf("float32 %v", x), []float32{x})
}

func (g *graph) constant(name string, data any, shape ...int) string {
	if !g.known[name] {
		g.known[name] = true
		g.initializers = append(g.initializers, safetensors.Tensor{Name: name, Shape: shape, Data: data})
	}
	return name
}

// slice returns the numbers [start, end) of the second axis of x.
func (g *graph) slice(name, x string, start, end int) string {
	return g.op("Slice", name, x, g.ints(int64(start)), g.ints(int64(end)), g.ints(1))
}

// concat returns the parts side by side along an axis.
func (g *graph) concat(name string, axis int64, parts ...string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return g.opInts("Concat", name, map[string]int64{"axis": axis}, parts...)
}

// headResult names a head's numbers within the graph. The head's own name belongs to its parameters
// and may belong to an output.
func headResult(head string) string { return head + "/gemm" }

// tower adds the layers of tower i, given the results of those before it, and returns the name
// of its result.
func (g *graph) tower(i int, towers []string) string {
	t := g.spec.Towers[i]
	x, step := g.towerInput(i, towers), 2
	if t.LayerNorm {
		step = 3
	}
	for j := range t.Hidden {
		op := map[string]string{models.Tanh: "Tanh", models.ReLU: "Relu"}[t.Activation]
		layer := fmt.Sprintf("%s.%d", t.Name, step*j)
		y := g.layer(x, t.Layer, layer, g.spec.PerNode(i))
		if t.LayerNorm { // over the last axis with ε = 1e-5, the defaults of ONNX and PyTorch
			norm := fmt.Sprintf("%s.%d", t.Name, step*j+1)
			y = g.op("LayerNormalization", norm+"/norm", y, norm+".weight", norm+".bias")
		}
		x = g.op(op, fmt.Sprintf("%s.%d", t.Name, step*(j+1)-1), y)
	}
	return x
}

// towerInput returns the input of tower i.
func (g *graph) towerInput(i int, towers []string) string {
	t := g.spec.Towers[i]
	lstm, tower := g.spec.Source(i)
	switch {
	case g.spec.PerNode(i):
		return g.nodeInput(lstm)
	case lstm >= 0:
		return g.memory[lstm]
	case tower >= 0:
		return g.pool(t.Name+"/pool", towers[tower], t.Pool)
	}
	return g.read(models.Range{End: g.spec.Inputs})
}

// layer adds a layer of the given kind and name.
func (g *graph) layer(x, kind, layer string, perNode bool) string {
	switch {
	case kind == models.SAGE:
		neighbours := g.matmul(g.op("MatMul", layer+"/aggregate", g.adjacency(kind), x), layer+".lin_l")
		y := g.op("Add", layer+"/neighbours", neighbours, layer+".lin_l.bias")
		return g.op("Add", layer+"/gemm", y, g.matmul(x, layer+".lin_r"))
	case kind == models.GCN:
		y := g.matmul(g.op("MatMul", layer+"/aggregate", g.adjacency(kind), x), layer+".lin")
		return g.op("Add", layer+"/gemm", y, layer+".bias")
	case perNode:
		return g.op("Add", layer+"/gemm", g.matmul(x, layer), layer+".bias")
	}
	return g.gemm(x, layer, layer+"/gemm")
}

// gemm adds the dense layer of that name over rows: y = x·Wᵀ + b.
func (g *graph) gemm(x, layer, y string) string {
	return g.opInts("Gemm", y, map[string]int64{"transB": 1}, x, layer+".weight", layer+".bias")
}

// matmul returns x·Wᵀ of a layer over nodes.
func (g *graph) matmul(x, layer string) string {
	return g.op("MatMul", layer+"/product", x, g.op("Transpose", layer+"/transposed", layer+".weight"))
}

// head adds head i. The head of a node tower gives the numbers of one node after another.
func (g *graph) head(i int, x string) {
	h := g.spec.Heads[i]
	if !g.spec.PerNode(h.Tower) {
		g.gemm(x, h.Name, headResult(h.Name))
		return
	}
	scores := g.op("Add", h.Name+"/nodes", g.matmul(x, h.Name), h.Name+".bias")
	g.opInts("Flatten", headResult(h.Name), map[string]int64{"axis": 1}, scores)
}

// output adds the operators that combine heads into an output.
func (g *graph) output(o Output) error {
	_, size := g.spec.Head(o.Head)
	if size == 0 {
		return fmt.Errorf("onnx: output %q is of head %q, which the spec lacks", o.Name, o.Head)
	}
	for _, h := range g.spec.Heads {
		if h.Free && (h.Name == o.Head || h.Name == o.Value) {
			return fmt.Errorf("%w: output %q is of head %q, which depends on no observation", ErrUnsupported, o.Name, h.Name)
		}
	}
	taken := func(v value) bool { return v.name == o.Name }
	if o.Name == "" || o.Name == NextState || slices.ContainsFunc(g.inputs, taken) || slices.ContainsFunc(g.outputs, taken) {
		return fmt.Errorf("onnx: output name %q is empty or taken", o.Name)
	}
	a, columns := g.joined(o.Head)
	g.outputs = append(g.outputs, value{name: o.Name, kind: typeFloat, dims: []dim{batchDim, columns}})
	if o.Value == "" {
		g.op("Identity", o.Name, a)
		return nil
	}
	if _, one := g.spec.Head(o.Value); one != 1 {
		return fmt.Errorf("onnx: head %q is no state value: it has %d numbers", o.Value, one)
	}
	mean, deviation := o.Name+"/mean", o.Name+"/deviation"
	g.nodes = append(g.nodes,
		node{op: "ReduceMean", name: mean, inputs: []string{a}, output: mean, ints: map[string]int64{"keepdims": 1}, lists: map[string][]int64{"axes": {1}}},
		node{op: "Sub", name: deviation, inputs: []string{a, mean}, output: deviation},
		node{op: "Add", name: o.Name, inputs: []string{headResult(o.Value), deviation}, output: o.Name})
	return nil
}

// joined returns the numbers of a head and the heads joined to it, and their size.
func (g *graph) joined(head string) (string, dim) {
	_, size := g.spec.Head(head)
	columns := dim{size: size}
	first := slices.IndexFunc(g.spec.Heads, func(h models.Head) bool { return h.Name == head })
	results := []string{headResult(head)}
	free := g.anyNodes && g.spec.PerNode(g.spec.Heads[first].Tower)
	for j := first + 1; j < len(g.spec.Heads) && g.spec.Heads[j].Joined; j++ {
		results = append(results, headResult(g.spec.Heads[j].Name))
		free = free || g.anyNodes && g.spec.PerNode(g.spec.Heads[j].Tower)
	}
	if free && len(results) == 1 && g.spec.Heads[first].Size == 1 {
		columns = nodesDim
	} else if free {
		columns = dim{param: head + " numbers"}
	}
	return g.concat(head+"/joined", 1, results...), columns
}
