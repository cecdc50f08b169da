package fused

import (
	"slices"
	"unsafe"

	"github.com/kubernasium/kubernasium/models"
)

// A tower is a stack of layers with one activation function.
type tower struct {
	layers []layer
	relu   bool
	heads  []int // that read it, in the order of the outputs
}

// A layer is dense. Its weight is params[param] and its bias params[param+1].
type layer struct {
	param, in, out int

	// transposed is the weight as (out, in), for the gradient of the layer's input. It is
	// empty where the input is an observation.
	transposed []float32

	y []float32 // results after the activation, for a row of the last Forward each; empty for a head
}

// A head is a layer whose results lie in columns of the outputs from offset on.
type head struct {
	layer
	tower, offset int
}

// build lays out towers and heads in the order of [models.ParamLayout].
func (n *Network) build() {
	param := 0
	next := func(observes bool) layer {
		shape := n.params[param].Shape
		l := layer{param: param, in: shape[0], out: shape[1]}
		if !observes {
			l.transposed = aligned(l.in * l.out)
		}
		param += 2
		return l
	}
	for _, t := range n.spec.Towers {
		tw := tower{relu: t.Activation == models.ReLU}
		for i := range t.Hidden {
			tw.layers = append(tw.layers, next(i == 0))
		}
		n.towers = append(n.towers, tw)
	}
	offset := 0
	for i, h := range n.spec.Heads {
		t := &n.towers[h.Tower]
		n.heads = append(n.heads, head{layer: next(len(t.layers) == 0), tower: h.Tower, offset: offset})
		t.heads = append(t.heads, i)
		offset += h.Size
	}
}

// grow makes room for that many rows.
func (n *Network) grow(rows int) {
	if rows*n.spec.Inputs <= len(n.obs) {
		return
	}
	n.obs = aligned(rows * n.spec.Inputs)
	n.outputs = aligned(rows * n.width)
	for t := range n.towers {
		for l := range n.towers[t].layers {
			layer := &n.towers[t].layers[l]
			layer.y = aligned(rows * layer.out)
		}
	}
}

// widest returns the width of the widest hidden layer.
func (n *Network) widest() int {
	w := 0
	for _, t := range n.towers {
		for _, l := range t.layers {
			w = max(w, l.out)
		}
	}
	return w
}

// transposeWeights brings the transposed weights up to date.
func (n *Network) transposeWeights() {
	update := func(l *layer) {
		if len(l.transposed) > 0 {
			n.k.transpose(l.transposed, n.params[l.param].Value, l.in, l.out)
		}
	}
	for t := range n.towers {
		for l := range n.towers[t].layers {
			update(&n.towers[t].layers[l])
		}
	}
	for h := range n.heads {
		update(&n.heads[h].layer)
	}
}

// aligned returns an array that starts at a cache line, so that no vector of a row of 16·i
// elements straddles two.
func aligned(size int) []float32 {
	const line = 64 / 4
	b := make([]float32, size+line-1)
	skip := 0
	if addr := uintptr(unsafe.Pointer(unsafe.SliceData(b))) % 64; addr != 0 {
		skip = int(64-addr) / 4
	}
	return slices.Clip(b[skip : skip+size])
}
