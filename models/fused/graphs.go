package fused

import (
	"math"

	"github.com/kubernasium/kubernasium/models"
)

// graphs holds the edges of the observations of a batch, or the fixed edges once, as compressed
// rows of in-neighbours.
type graphs struct {
	spec         models.Spec
	nodes, edges int // of one observation; most edges
	fixed        bool
	begin        []int32    // (graphs, nodes+1) start of a node's in-neighbours in source
	source       []int32    // (graphs, edges)
	mean         []float32  // (graphs, nodes) 1/in-degree, or 0
	root         []float32  // (graphs, nodes) 1/√(in-degree without a loop, plus 1)
	pairs        [][2]int32 // of one observation
}

// An adjacency is the graph of one observation.
type adjacency struct {
	begin, source []int32
	mean, root    []float32
}

// newGraphs returns the graphs of a spec with edges.
func newGraphs(spec models.Spec) *graphs {
	g := &graphs{spec: spec, nodes: spec.Nodes.N, edges: spec.MaxEdges(), fixed: len(spec.Nodes.Edges.Fixed) > 0}
	g.pairs = make([][2]int32, 0, g.edges)
	if g.fixed {
		g.reserve(1)
		g.pairs, _ = spec.AppendEdges(g.pairs, nil) // checked by Validate
		g.build(0)
	}
	return g
}

// grow allocates memory for the graphs of the given number of observations.
func (g *graphs) grow(rows int) {
	if !g.fixed {
		g.reserve(rows)
	}
}

func (g *graphs) reserve(rows int) {
	g.begin, g.source = make([]int32, rows*(g.nodes+1)), make([]int32, rows*g.edges)
	g.mean, g.root = make([]float32, rows*g.nodes), make([]float32, rows*g.nodes)
}

// read builds the graphs of the observations.
func (g *graphs) read(obs []float32, rows int) error {
	if g.fixed {
		return nil
	}
	for r := range rows {
		var err error
		if g.pairs, err = g.spec.AppendEdges(g.pairs[:0], obs[r*g.spec.Inputs:(r+1)*g.spec.Inputs]); err != nil {
			return err
		}
		g.build(r)
	}
	return nil
}

// build sorts the pairs into rows by target, in the order of the pairs.
func (g *graphs) build(row int) {
	a := g.of(row)
	begin, mean, root := a.begin, a.mean, a.root
	clear(begin)
	clear(root) // counts in-neighbours that are not the node itself
	for _, p := range g.pairs {
		begin[p[1]+1]++
		if p[0] != p[1] {
			root[p[1]]++
		}
	}
	for i, k := range begin[1:] {
		mean[i] = 0
		if k > 0 {
			mean[i] = 1 / float32(k)
		}
		root[i] = float32(1 / math.Sqrt(float64(root[i])+1))
		begin[i+1] += begin[i]
	}
	// This moves begin[i] to the end of row i, which is the start of the next.
	for _, p := range g.pairs {
		a.source[begin[p[1]]] = p[0]
		begin[p[1]]++
	}
	copy(begin[1:], begin[:len(begin)-1])
	begin[0] = 0
}

// of returns the graph of an observation.
func (g *graphs) of(row int) adjacency {
	if g.fixed {
		row = 0
	}
	return adjacency{
		begin: g.begin[row*(g.nodes+1) : (row+1)*(g.nodes+1)], source: g.source[row*g.edges : (row+1)*g.edges],
		mean: g.mean[row*g.nodes : (row+1)*g.nodes], root: g.root[row*g.nodes : (row+1)*g.nodes],
	}
}

// neighbours returns the in-neighbours of a node.
func (a *adjacency) neighbours(node int) []int32 { return a.source[a.begin[node]:a.begin[node+1]] }
