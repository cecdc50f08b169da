package onnx

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/models"
)

// nodeInput returns the input of a node tower: each node's row, the globals and, unless lstm is -1,
// the results of an LSTM.
func (g *graph) nodeInput(lstm int) string {
	name := "nodes and globals"
	var beside []string
	if g.globals != "" {
		beside = append(beside, g.globals)
	}
	if lstm >= 0 {
		beside = append(beside, g.memory[lstm])
		name += " and " + g.spec.LSTMs[lstm].Name
	}
	if len(beside) == 0 {
		return g.rows
	}
	one := g.op("Unsqueeze", name+"/one", g.concat(name+"/beside", 1, beside...), g.ints(1))
	shape := g.concat("nodes/shape", 0, g.ints(1), g.nodeCount(), g.ints(1))
	return g.concat(name, 2, g.rows, g.op("Expand", name+"/each", one, shape))
}

// nodeCount returns the number of nodes, of shape (1).
func (g *graph) nodeCount() string {
	return g.opInts("Shape", "nodes/count", map[string]int64{"start": 1, "end": 2}, g.rows)
}

// pool returns x, of shape (N, nodes, width), pooled over the nodes.
func (g *graph) pool(name, x, pool string) string {
	var pieces []string
	for _, p := range models.Poolings(pool) {
		if p == models.Mean {
			pieces = append(pieces, g.over("ReduceMean", name+"/mean", x, 1))
		} else {
			pieces = append(pieces, g.over("ReduceMax", name+"/max", x, 1))
		}
	}
	return g.concat(name, 1, pieces...)
}

// adjacency returns the matrix by which the rows of nodes are multiplied to pass messages, of
// shape (N, nodes, nodes) or, if edges are fixed, (nodes, nodes). Row i holds the weights of
// the messages to node i.
func (g *graph) adjacency(kind string) string {
	if len(g.spec.Nodes.Edges.Fixed) > 0 {
		return g.fixedAdjacency(kind)
	}
	counts := g.edgeCounts()
	if kind == models.SAGE { // the mean; 0 without neighbours
		degree := g.op("Max", "edges/degree or 1", g.rowSums("edges/degree", counts), g.number(1))
		return g.op("Div", "edges/sage", counts, degree)
	}
	loops := g.op("Add", "edges/loops", g.op("Mul", "edges/others", counts, g.offDiagonal()), g.identity())
	root := g.op("Sqrt", "edges/root", g.rowSums("edges/in-degree", loops))
	across := g.opPerm("edges/root across", root)
	return g.op("Div", "edges/gcn", g.op("Div", "edges/over targets", loops, root), across)
}

// edgeCounts returns the matrix of the numbers of edges to a node (row) from a node (column).
func (g *graph) edgeCounts() string {
	e := g.spec.Nodes.Edges
	ends := g.table(e.Ends(), e.N, 2, g.readRaw, func(p part) string { return p.raw })
	oneHot := func(end string, at int64) string {
		numbers := g.opInts("Gather", "edges/"+end, map[string]int64{"axis": 2}, ends, g.constant(fmt.Sprintf("int64 %d", at), []int64{at}))
		whole := g.opInts("Cast", "edges/"+end+" number", map[string]int64{"to": typeInt64}, numbers)
		return g.op("OneHot", "edges/"+end+" one-hot", whole, g.nodeCount(), g.constant("float32[0 1]", []float32{0, 1}, 2))
	}
	from, to := oneHot("source", 0), oneHot("target", 1) // (N, edges, nodes)
	if e.Masked {
		used := g.op("Equal", "edges/unused", g.readRaw(e.Mask()), g.number(0))
		counts := g.opInts("Cast", "edges/used", map[string]int64{"to": typeFloat}, g.op("Not", "edges/are used", used))
		from = g.op("Mul", "edges/used sources", from, g.op("Unsqueeze", "edges/used column", counts, g.ints(2)))
	}
	counts := g.op("MatMul", "edges/counts", g.opPerm("edges/targets", to), from)
	if e.Undirected { // a loop counts once
		back := g.op("Mul", "edges/back others", g.opPerm("edges/back", counts), g.offDiagonal())
		counts = g.op("Add", "edges/both", counts, back)
	}
	return counts
}

// opPerm returns x with its last two of three axes exchanged.
func (g *graph) opPerm(name, x string) string {
	if !g.known[name] {
		g.known[name] = true
		g.nodes = append(g.nodes, node{op: "Transpose", name: name, inputs: []string{x}, output: name, lists: map[string][]int64{"perm": {0, 2, 1}}})
	}
	return name
}

// rowSums returns the sums of the rows of a matrix, as a column.
func (g *graph) rowSums(name, x string) string {
	return g.opInts("ReduceSum", name, map[string]int64{"keepdims": 1}, x, g.ints(2))
}

// identity returns the identity matrix of as many rows as there are nodes.
func (g *graph) identity() string {
	count := g.op("Squeeze", "nodes/number", g.nodeCount())
	numbers := g.op("Range", "nodes/numbers", g.constant("int64 0", []int64{0}), count, g.constant("int64 1", []int64{1}))
	return g.op("OneHot", "nodes/identity", numbers, g.nodeCount(), g.constant("float32[0 1]", []float32{0, 1}, 2))
}

// offDiagonal returns a matrix of ones with zeros on the diagonal.
func (g *graph) offDiagonal() string {
	return g.op("Sub", "nodes/others", g.number(1), g.identity())
}

// fixedAdjacency returns the matrix of the edges that the spec holds.
func (g *graph) fixedAdjacency(kind string) string {
	n := g.spec.Nodes.N
	pairs, _ := g.spec.AppendEdges(nil, nil) // checked by Validate
	matrix, degree := make([]float64, n*n), make([]float64, n)
	for _, p := range pairs {
		from, to := int(p[0]), int(p[1])
		if kind == models.GCN && from == to {
			continue
		}
		matrix[to*n+from]++
		degree[to]++
	}
	data := make([]float32, n*n)
	for i := range n {
		if kind == models.GCN {
			matrix[i*n+i]++
		}
		for j := range n {
			x := matrix[i*n+j]
			switch {
			case kind == models.GCN:
				x /= math.Sqrt((degree[i] + 1) * (degree[j] + 1))
			case degree[i] > 0:
				x /= degree[i]
			}
			data[i*n+j] = float32(x)
		}
	}
	return g.constant("edges/"+kind, data, n, n)
}
