package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// value is an input or output.
type value struct {
	name string
	kind int64 // typeFloat or typeBool
	dims []dim
}

// dim is a dimension: a number, or a name if the caller chooses its size.
type dim struct {
	param string
	size  int
}

var (
	batchDim = dim{param: "N"}
	nodesDim = dim{param: "nodes"}
	edgesDim = dim{param: "edges"}
)

// part is an input that holds a part of the observation.
type part struct {
	models.Range
	raw, seen string // names before and after the scaling
	shape     []int
}

// addParts adds the parts of an observation as inputs.
func (g *graph) addParts(parts []Part) error {
	if parts == nil {
		parts = []Part{{Name: Input, Shape: []int{g.spec.Inputs}}}
	}
	at := 0
	for _, p := range parts {
		size := 1
		for _, d := range p.Shape {
			size *= d
		}
		if p.Name == "" || p.Name == State || p.Name == EpisodeStart || strings.Contains(p.Name, "/") ||
			slices.ContainsFunc(g.parts, func(q part) bool { return q.raw == p.Name }) {
			return fmt.Errorf("onnx: name %q of a part of the observation is empty, reserved, taken or has a slash", p.Name)
		}
		if size < 1 || at+size > g.spec.Inputs {
			return fmt.Errorf("%w: parts %v of the observation, want %d numbers in all", models.ErrMismatch, parts, g.spec.Inputs)
		}
		g.parts = append(g.parts, part{models.Range{Start: at, End: at + size}, p.Name, p.Name, p.Shape})
		at += size
	}
	if at != g.spec.Inputs {
		return fmt.Errorf("%w: parts %v of the observation, want %d numbers in all", models.ErrMismatch, parts, g.spec.Inputs)
	}
	g.anyNodes = g.countsNodes()
	for _, p := range g.parts {
		dims := []dim{batchDim}
		for _, d := range p.shape {
			dims = append(dims, dim{size: d})
		}
		if g.anyNodes && p.Range == g.spec.Nodes.Rows() {
			dims[1] = nodesDim
		}
		if g.anyNodes && g.isEdges(p.Range) {
			dims[1] = edgesDim
		}
		g.inputs = append(g.inputs, value{name: p.raw, kind: typeFloat, dims: dims})
	}
	if size := g.spec.StateSize(); size > 0 {
		g.inputs = append(g.inputs, value{State, typeFloat, []dim{batchDim, {size: size}}}, value{EpisodeStart, typeBool, []dim{batchDim}})
	}
	return nil
}

// countsNodes reports whether the graph accepts any number of nodes: nodes, and edges if there are
// any, are separate inputs, and nothing reads the observation as a whole.
func (g *graph) countsNodes() bool {
	n := g.spec.Nodes
	if n == nil || !g.isPart(n.Rows(), 2) {
		return false
	}
	if e := n.Edges; e != nil && (e.N == 0 || !g.isPart(e.Ends(), 2) || e.Masked && !g.isPart(e.Mask(), 1)) {
		return false
	}
	for i, t := range g.spec.Towers {
		if lstm, tower := g.spec.Source(i); t.Reads == "" || t.Reads != models.NodeRows && lstm < 0 && tower < 0 {
			return false
		}
	}
	return !slices.ContainsFunc(g.spec.LSTMs, func(l models.LSTM) bool { return l.Pool == "" })
}

func (g *graph) isPart(r models.Range, axes int) bool {
	return slices.ContainsFunc(g.parts, func(p part) bool { return p.Range == r && len(p.shape) == axes })
}

// isEdges reports whether r holds the ends of edges or their mask.
func (g *graph) isEdges(r models.Range) bool {
	if g.spec.Nodes == nil || g.spec.Nodes.Edges == nil || g.spec.Nodes.Edges.N == 0 {
		return false
	}
	e := g.spec.Nodes.Edges
	return r == e.Ends() || e.Masked && r == e.Mask()
}

// scale adds the scaling of the inputs.
func (g *graph) scale(s Scaling) error {
	if len(s.Mean) != g.spec.Inputs || len(s.Std) != g.spec.Inputs {
		return fmt.Errorf("onnx: scaling of %d and %d numbers, want %d", len(s.Mean), len(s.Std), g.spec.Inputs)
	}
	for i := range g.parts {
		p := &g.parts[i]
		if g.isEdges(p.Range) {
			continue // not scaled
		}
		shape, at := p.shape, p.Range
		if g.anyNodes && p.Range == g.spec.Nodes.Rows() { // one row serves any number of nodes
			shape, at.End = p.shape[1:], at.Start+g.spec.Nodes.Features
		}
		mean, std, low, high := p.raw+"_rms.mean", p.raw+"_rms.std", p.raw+"_rms.low", p.raw+"_rms.high"
		g.initializers = append(g.initializers,
			safetensors.Tensor{Name: mean, Shape: shape, Data: s.Mean[at.Start:at.End]},
			safetensors.Tensor{Name: std, Shape: shape, Data: s.Std[at.Start:at.End]},
			safetensors.Tensor{Name: low, Data: []float32{-s.Clip}},
			safetensors.Tensor{Name: high, Data: []float32{s.Clip}})
		centred := g.op("Sub", p.raw+"/centred", p.raw, mean)
		p.seen = g.op("Clip", p.raw+"/clipped", g.op("Div", p.raw+"/scaled", centred, std), low, high)
	}
	return nil
}

// read returns a range of the observation as the network sees it, of shape (N, numbers).
func (g *graph) read(r models.Range) string {
	return g.readParts(r, func(p part) string { return p.seen })
}

// readRaw returns a range of the observation without scaling.
func (g *graph) readRaw(r models.Range) string {
	return g.readParts(r, func(p part) string { return p.raw })
}

func (g *graph) readParts(r models.Range, of func(part) string) string {
	var pieces []string
	for _, p := range g.parts {
		start, end := max(r.Start, p.Start), min(r.End, p.End)
		if start >= end {
			continue
		}
		x := of(p)
		if len(p.shape) != 1 {
			x = g.opInts("Flatten", x+"/flat", map[string]int64{"axis": 1}, x)
		}
		if start > p.Start || end < p.End {
			x = g.slice(fmt.Sprintf("%s/%d:%d", x, start-p.Start, end-p.Start), x, start-p.Start, end-p.Start)
		}
		pieces = append(pieces, x)
	}
	return g.concat(fmt.Sprintf("observation/%d:%d", r.Start, r.End), 1, pieces...)
}

// readNodes sets the rows of nodes and the globals.
func (g *graph) readNodes() {
	n := g.spec.Nodes
	g.rows = g.table(n.Rows(), n.N, n.Features, g.read, func(p part) string { return p.seen })
	var pieces []string
	for _, r := range g.spec.Globals() {
		pieces = append(pieces, g.read(r))
	}
	if len(pieces) > 0 {
		g.globals = g.concat("globals", 1, pieces...)
	}
}

// table returns a range of the observation as rows, of shape (N, rows, columns).
func (g *graph) table(r models.Range, rows, columns int, read func(models.Range) string, of func(part) string) string {
	for _, p := range g.parts {
		if p.Range == r && len(p.shape) == 2 {
			return of(p)
		}
	}
	x := read(r)
	return g.op("Reshape", x+"/table", x, g.ints(0, int64(rows), int64(columns)))
}
