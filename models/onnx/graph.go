package onnx

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// graph is the content of a model.
type graph struct {
	inputs       int
	read         string // what towers read: the input, or what scaling makes of it
	nodes        []node
	initializers []safetensors.Tensor
	outputs      []value
}

// node is an operator.
type node struct {
	op, name string
	inputs   []string
	output   string
	ints     map[string]int64   // attributes that are numbers
	lists    map[string][]int64 // attributes that are lists
}

// value is a tensor of shape (N, size).
type value struct {
	name string
	size int
}

// build makes the nodes of a spec.
func build(spec models.Spec, params []models.Param, scaling *Scaling, outputs []Output) (*graph, error) {
	if err := checkSupported(spec); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	var f models.File // gives parameters PyTorch's layout
	f.PutParams(params)
	if want := models.ParamLayout(spec); len(want) != len(f.Tensors) {
		return nil, fmt.Errorf("%w: %d parameters, want %d", models.ErrMismatch, len(f.Tensors), len(want))
	}
	for i, p := range models.ParamLayout(spec) {
		if params[i].Name != p.Name || !slices.Equal(params[i].Shape, p.Shape) {
			return nil, fmt.Errorf("%w: parameter %s%v, want %s%v", models.ErrMismatch, params[i].Name, params[i].Shape, p.Name, p.Shape)
		}
	}
	g := &graph{inputs: spec.Inputs, read: Input, initializers: f.Tensors}
	if scaling != nil {
		if err := g.scale(*scaling); err != nil {
			return nil, err
		}
	}
	towers := make([]string, len(spec.Towers)) // names of their results
	for i, t := range spec.Towers {
		var err error
		if towers[i], err = g.tower(t); err != nil {
			return nil, err
		}
	}
	for _, h := range spec.Heads {
		if h.Free {
			continue // and so is not an output
		}
		g.gemm(towers[h.Tower], h.Name, headResult(h.Name))
	}
	for _, o := range outputs {
		if err := g.output(spec, o); err != nil {
			return nil, err
		}
	}
	if len(g.outputs) == 0 {
		return nil, fmt.Errorf("onnx: no outputs, want at least one")
	}
	return g, nil
}

// headResult names a head's numbers within the graph, where the head's name is that of its
// parameters and may be that of an output.
func headResult(head string) string { return head + "/gemm" }

// tower adds the layers of a tower and returns the name of their result.
func (g *graph) tower(t models.Tower) (string, error) {
	x, step := g.read, 2
	if t.LayerNorm {
		step = 3
	}
	for i := range t.Hidden {
		op, ok := map[string]string{models.Tanh: "Tanh", models.ReLU: "Relu"}[t.Activation]
		if !ok {
			return "", fmt.Errorf("%w: activation %q of tower %s, want %q or %q", ErrUnsupported, t.Activation, t.Name, models.Tanh, models.ReLU)
		}
		layer := fmt.Sprintf("%s.%d", t.Name, step*i)
		y := layer + "/gemm"
		g.gemm(x, layer, y)
		if t.LayerNorm { // over the last axis with ε = 1e-5, the defaults of ONNX as of PyTorch
			norm := fmt.Sprintf("%s.%d", t.Name, step*i+1)
			g.nodes = append(g.nodes, node{op: "LayerNormalization", name: norm, inputs: []string{y, norm + ".weight", norm + ".bias"}, output: norm + "/norm"})
			y = norm + "/norm"
		}
		x = fmt.Sprintf("%s.%d", t.Name, step*(i+1)-1)
		g.nodes = append(g.nodes, node{op: op, name: x, inputs: []string{y}, output: x})
	}
	return x, nil
}

// scale adds what is done to the input before the towers.
func (g *graph) scale(s Scaling) error {
	if len(s.Mean) != g.inputs || len(s.Std) != g.inputs {
		return fmt.Errorf("onnx: scaling of %d and %d numbers, want %d", len(s.Mean), len(s.Std), g.inputs)
	}
	const mean, std, low, high = "obs_rms.mean", "obs_rms.std", "obs_rms.low", "obs_rms.high"
	g.initializers = append(g.initializers,
		safetensors.Tensor{Name: mean, Shape: []int{g.inputs}, Data: s.Mean},
		safetensors.Tensor{Name: std, Shape: []int{g.inputs}, Data: s.Std},
		safetensors.Tensor{Name: low, Data: []float32{-s.Clip}},
		safetensors.Tensor{Name: high, Data: []float32{s.Clip}})
	g.nodes = append(g.nodes,
		node{op: "Sub", name: "obs/centred", inputs: []string{Input, mean}, output: "obs/centred"},
		node{op: "Div", name: "obs/scaled", inputs: []string{"obs/centred", std}, output: "obs/scaled"},
		node{op: "Clip", name: "obs/clipped", inputs: []string{"obs/scaled", low, high}, output: "obs/clipped"})
	g.read = "obs/clipped"
	return nil
}

// gemm adds the dense layer of that name: y = x·Wᵀ + b.
func (g *graph) gemm(x, layer, y string) {
	g.nodes = append(g.nodes, node{op: "Gemm", name: layer, inputs: []string{x, layer + ".weight", layer + ".bias"}, output: y,
		ints: map[string]int64{"transB": 1}})
}

// output adds what makes an output of its heads.
func (g *graph) output(spec models.Spec, o Output) error {
	_, size := spec.Head(o.Head)
	if size == 0 {
		return fmt.Errorf("onnx: output %q is of head %q, which the spec lacks", o.Name, o.Head)
	}
	for _, h := range spec.Heads {
		if h.Free && (h.Name == o.Head || h.Name == o.Value) {
			return fmt.Errorf("%w: output %q is of head %q, which depends on no observation", ErrUnsupported, o.Name, h.Name)
		}
	}
	if o.Name == "" || o.Name == Input || slices.ContainsFunc(g.outputs, func(v value) bool { return v.name == o.Name }) {
		return fmt.Errorf("onnx: output name %q is empty or taken", o.Name)
	}
	g.outputs = append(g.outputs, value{o.Name, size})
	a := headResult(o.Head)
	if o.Value == "" {
		g.nodes = append(g.nodes, node{op: "Identity", name: o.Name, inputs: []string{a}, output: o.Name})
		return nil
	}
	if _, one := spec.Head(o.Value); one != 1 {
		return fmt.Errorf("onnx: head %q is no state value: it has %d numbers", o.Value, one)
	}
	mean, deviation := o.Name+"/mean", o.Name+"/deviation"
	g.nodes = append(g.nodes,
		node{op: "ReduceMean", name: mean, inputs: []string{a}, output: mean, ints: map[string]int64{"keepdims": 1}, lists: map[string][]int64{"axes": {1}}},
		node{op: "Sub", name: deviation, inputs: []string{a, mean}, output: deviation},
		node{op: "Add", name: o.Name, inputs: []string{headResult(o.Value), deviation}, output: o.Name})
	return nil
}
