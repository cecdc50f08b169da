package models

import (
	"errors"
	"fmt"
	"slices"
)

// NodeRows as Reads of a [Tower] means that all nodes share its layers.
const NodeRows = "nodes"

// Ways to pool the results of a node tower over the nodes. MeanMax is both, side by side. The
// gradient of a maximum goes to the first node that has it.
const (
	Mean    = "mean"
	Max     = "max"
	MeanMax = "mean+max"
)

var poolings = map[string][]string{Mean: {Mean}, Max: {Max}, MeanMax: {Mean, Max}}

// Poolings returns the parts of pool in the order of their results: Mean, Max or both. It returns
// nil for an unknown pool.
func Poolings(pool string) []string { return slices.Clone(poolings[pool]) }

// The layers that pass messages along edges.
//
// SAGE is y = mean(x of in-neighbours)·lin_l + b + x·lin_r, where the mean over no neighbours
// is 0: Hamilton, Ying and Leskovec, "Inductive Representation Learning on Large Graphs",
// arXiv:1706.02216, as PyTorch Geometric's SAGEConv computes it.
//
// GCN is y = Â·x·lin + b with Â = D^-½(A+I)D^-½, where D holds in-degrees with the loop that
// each node has once: Kipf and Welling, "Semi-Supervised Classification with Graph
// Convolutional Networks", arXiv:1609.02907, as PyTorch Geometric's GCNConv computes it.
const (
	SAGE = "sage"
	GCN  = "gcn"
)

// Nodes locates the rows of features of nodes in an observation: N·Features numbers from Offset on,
// such as a leaf "nodes" of shape (N, Features).
type Nodes struct {
	Offset   int    `json:"offset"`
	N        int    `json:"n"`        // number of nodes
	Features int    `json:"features"` // of one node
	Edges    *Edges `json:"edges,omitempty"`
}

// Edges says which nodes pass messages to which. An edge is a source and a target, numbered from 0.
// Edges are either N pairs in the observation, such as a leaf "edges" of shape (N, 2), or fixed.
type Edges struct {
	Offset     int      `json:"offset,omitempty"` // of 2·N numbers
	N          int      `json:"n,omitempty"`      // edges in the observation; 0 if they are fixed
	Masked     bool     `json:"masked,omitempty"` // a leaf "edge_mask" of shape (N) is not 0 for the edges that count
	MaskOffset int      `json:"mask_offset,omitempty"`
	Fixed      [][2]int `json:"fixed,omitempty"`
	Undirected bool     `json:"undirected,omitempty"` // each edge counts in both directions
}

// ErrEdge is wrapped by the errors of [Spec.AppendEdges] and of a [Network] of such a spec.
var ErrEdge = errors.New("models: invalid edge")

// A Range is the part [Start, End) of an observation.
type Range struct{ Start, End int }

// AppendEdges appends the edges of one observation to edges, as pairs of source and target. If an
// edge that counts has an end that is not an integer in [0, Nodes.N), the error wraps [ErrEdge].
func (s Spec) AppendEdges(edges [][2]int32, obs []float32) ([][2]int32, error) {
	e := s.Nodes.Edges
	add := func(from, to int32) {
		edges = append(edges, [2]int32{from, to})
		if e.Undirected && from != to {
			edges = append(edges, [2]int32{to, from})
		}
	}
	for _, f := range e.Fixed {
		add(int32(f[0]), int32(f[1]))
	}
	for i := range e.N {
		if e.Masked && obs[e.MaskOffset+i] == 0 {
			continue
		}
		from, to := obs[e.Offset+2*i], obs[e.Offset+2*i+1]
		if !s.Nodes.has(from) || !s.Nodes.has(to) {
			return edges, fmt.Errorf("%w: edge %d is from node %v to node %v, want whole numbers from 0 to %d",
				ErrEdge, i, from, to, s.Nodes.N-1)
		}
		add(int32(from), int32(to))
	}
	return edges, nil
}

// has reports whether x is the index of a node.
func (n *Nodes) has(x float32) bool {
	return x >= 0 && x < float32(n.N) && x == float32(int32(x))
}

// MaxEdges bounds the edges that AppendEdges appends for one observation.
func (s Spec) MaxEdges() int {
	if s.Nodes == nil || s.Nodes.Edges == nil {
		return 0
	}
	e := s.Nodes.Edges
	n := e.N + len(e.Fixed)
	if e.Undirected {
		n *= 2
	}
	return n
}

// WithNodes returns s for another number of nodes and of edges in the observation. The parameters
// are the same, so a trained network serves any size. Parts of the observation keep their order;
// those after a part that grows move back. The error wraps [ErrSpec].
func (s Spec) WithNodes(nodes, edges int) (Spec, error) {
	if s.Nodes == nil {
		return Spec{}, fmt.Errorf("%w: no nodes to be counted anew", ErrSpec)
	}
	old := *s.Nodes
	var oldEdges Edges
	if old.Edges != nil {
		oldEdges = *old.Edges
	}
	if len(oldEdges.Fixed) > 0 && nodes != old.N {
		return Spec{}, fmt.Errorf("%w: edges fixed for %d nodes, want %d nodes", ErrSpec, old.N, nodes)
	}
	if edges != oldEdges.N && oldEdges.N == 0 {
		return Spec{}, fmt.Errorf("%w: %d edges, but the observation has none", ErrSpec, edges)
	}
	if nodes < 1 || nodes > MaxWidth || edges < 0 || edges > MaxWidth {
		return Spec{}, fmt.Errorf("%w: %d nodes and %d edges, want 1 to %d and at most as many", ErrSpec, nodes, edges, MaxWidth)
	}
	growth := func(offset int) int {
		g := 0
		if offset > old.Offset {
			g += (nodes - old.N) * old.Features
		}
		if oldEdges.N > 0 && offset > oldEdges.Offset {
			g += 2 * (edges - oldEdges.N)
		}
		if oldEdges.Masked && offset > oldEdges.MaskOffset {
			g += edges - oldEdges.N
		}
		return g
	}
	s.Inputs += growth(s.Inputs)
	n := Nodes{Offset: old.Offset + growth(old.Offset), N: nodes, Features: old.Features}
	if old.Edges != nil {
		e := oldEdges
		e.Fixed, e.N = slices.Clone(e.Fixed), edges
		e.Offset += growth(e.Offset)
		e.MaskOffset += growth(e.MaskOffset)
		if !e.Masked {
			e.MaskOffset = 0
		}
		if e.N == 0 {
			e.Offset = 0
		}
		n.Edges = &e
	}
	s.Nodes = &n
	return s, s.Validate()
}

// Rows returns the part of the observation that holds the rows of nodes.
func (n *Nodes) Rows() Range { return Range{n.Offset, n.Offset + n.N*n.Features} }

// Ends returns the part of the observation that holds the ends of edges. It is empty if they are
// fixed.
func (e *Edges) Ends() Range { return Range{e.Offset, e.Offset + 2*e.N} }

// Mask returns the part of the observation that says which edges count, if they are Masked.
func (e *Edges) Mask() Range { return Range{e.MaskOffset, e.MaskOffset + e.N} }

// parts returns the parts of the observation that hold nodes and edges, in their order.
func (n *Nodes) parts() []Range {
	p := []Range{n.Rows()}
	if e := n.Edges; e != nil && e.N > 0 {
		p = append(p, e.Ends())
		if e.Masked {
			p = append(p, e.Mask())
		}
	}
	slices.SortFunc(p, func(a, b Range) int { return a.Start - b.Start })
	return p
}

// Globals returns the parts of an observation that hold neither nodes nor edges, in their
// order.
func (s Spec) Globals() []Range {
	var g []Range
	at := 0
	for _, p := range s.Nodes.parts() {
		if p.Start > at {
			g = append(g, Range{at, p.Start})
		}
		at = p.End
	}
	if at < s.Inputs {
		g = append(g, Range{at, s.Inputs})
	}
	return g
}

// globals returns the number of elements that Globals covers.
func (s Spec) globals() int {
	n := 0
	for _, g := range s.Globals() {
		n += g.End - g.Start
	}
	return n
}

func (n *Nodes) validate(inputs int) error {
	if err := errors.Join(checkWidth(n.N), checkWidth(n.Features)); err != nil {
		return err
	}
	if e := n.Edges; e != nil {
		if err := e.validate(n.N); err != nil {
			return fmt.Errorf("edges: %w", err)
		}
	}
	at := 0
	for _, p := range n.parts() {
		if p.Start < at || p.Start > inputs || p.End > inputs {
			return fmt.Errorf("numbers %d to %d of an observation of %d are out of range or used twice", p.Start, p.End-1, inputs)
		}
		at = p.End
	}
	return nil
}

func (e *Edges) validate(nodes int) error {
	if (e.N == 0) == (len(e.Fixed) == 0) {
		return fmt.Errorf("%d in the observation and %d fixed, want one of them", e.N, len(e.Fixed))
	}
	if e.N < 0 || e.N > MaxWidth || len(e.Fixed) > MaxWidth {
		return fmt.Errorf("%d in the observation and %d fixed, want at most %d", e.N, len(e.Fixed), MaxWidth)
	}
	if e.N == 0 && (e.Masked || e.Offset != 0) || !e.Masked && e.MaskOffset != 0 {
		return errors.New("an offset of what is not in the observation")
	}
	for i, f := range e.Fixed {
		if min(f[0], f[1]) < 0 || max(f[0], f[1]) >= nodes {
			return fmt.Errorf("fixed edge %d is from node %d to node %d of %d", i, f[0], f[1], nodes)
		}
	}
	return nil
}

func (n *Nodes) equal(m *Nodes) bool {
	if n == nil || m == nil {
		return n == m
	}
	return n.Offset == m.Offset && n.N == m.N && n.Features == m.Features && n.Edges.equal(m.Edges)
}

func (e *Edges) equal(f *Edges) bool {
	if e == nil || f == nil {
		return e == f
	}
	return e.Offset == f.Offset && e.N == f.N && e.Masked == f.Masked && e.MaskOffset == f.MaskOffset &&
		slices.Equal(e.Fixed, f.Fixed) && e.Undirected == f.Undirected
}
