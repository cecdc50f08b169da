// Package oracle computes networks in float64 with plain loops, for the tests of the engines. It
// shares no code with them and finds parameters by name.
package oracle

import (
	"fmt"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/models"
)

// A Batch holds the arguments of models.Recurrent.ForwardSequence. A Forward is one step without
// state and starts.
type Batch struct {
	Steps, N int
	Obs      []float64
	State    []float64 // nil: zeros
	Starts   []bool    // nil: none
}

// A Network is a spec with parameters in float64.
type Network struct {
	Spec   models.Spec
	params map[string][]float64
}

// New returns a network with the parameters in flat, concatenated in the order of
// models.ParamLayout.
func New(spec models.Spec, flat []float64) *Network {
	n := &Network{Spec: spec, params: map[string][]float64{}}
	for _, p := range models.ParamLayout(spec) {
		size := 1
		for _, d := range p.Shape {
			size *= d
		}
		n.params[p.Name], flat = flat[:size], flat[size:]
	}
	return n
}

// Forward returns the outputs, row after row, and the state after the last step.
func (n *Network) Forward(b Batch) (outputs, state []float64) { return n.ForwardDetached(b, n) }

// ForwardDetached is Forward, except that towers with Detach read the results of the network still,
// so that finite differences of the outputs exclude them.
func (n *Network) ForwardDetached(b Batch, still *Network) (outputs, state []float64) {
	s := n.Spec
	lstms, detached := map[string][][]float64{}, map[string][][]float64{} // rows by name
	state = make([]float64, b.N*s.StateSize())
	offset, again := 0, 0
	detaches := slices.ContainsFunc(s.Towers, func(t models.Tower) bool { return t.Detach })
	for _, l := range s.LSTMs {
		lstms[l.Name] = n.lstm(l, b, state, &offset)
		if detaches {
			detached[l.Name] = still.lstm(l, b, make([]float64, len(state)), &again)
		}
	}
	for r := range b.Steps * b.N {
		obs := b.Obs[r*s.Inputs : (r+1)*s.Inputs]
		var fixed map[string][][]float64
		if detaches {
			fixed = still.towers(obs, func(t models.Tower) [][]float64 { return row(detached, t, r) }, nil)
		}
		source := n.towers(obs, func(t models.Tower) [][]float64 {
			if t.Detach {
				return row(detached, t, r)
			}
			return row(lstms, t, r)
		}, fixed)
		outputs = append(outputs, n.heads(source)...)
	}
	return outputs, state
}

// row returns row r of the LSTM that a tower reads, alone or beside nodes, or nil if it reads none.
func row(lstms map[string][][]float64, t models.Tower, r int) [][]float64 {
	for _, name := range []string{t.Reads, t.Beside} {
		if rows := lstms[name]; rows != nil {
			return rows[r : r+1]
		}
	}
	return nil
}

func (n *Network) dense(name string, x []float64) []float64 {
	y := append([]float64(nil), n.params[name+".bias"]...)
	return n.product(y, name+".weight", x)
}

// product adds x·W to y.
func (n *Network) product(y []float64, name string, x []float64) []float64 {
	w := n.params[name]
	for i, v := range x {
		for j := range y {
			y[j] += v * w[i*len(y)+j]
		}
	}
	return y
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// lstm follows the formulas in the documentation of torch.nn.LSTM.
func (n *Network) lstm(l models.LSTM, b Batch, state []float64, offset *int) [][]float64 {
	rows := make([][]float64, b.Steps*b.N)
	for r := range rows {
		rows[r] = b.Obs[r*n.Spec.Inputs : (r+1)*n.Spec.Inputs]
		if l.Pool != "" {
			nodes, globals := n.parts(rows[r])
			rows[r] = append(globals, pool(l.Pool, nodes)...)
		}
		if l.Layers == 0 {
			rows[r] = n.dense(l.Name, rows[r])
		}
	}
	size, H := n.Spec.StateSize(), l.Hidden
	for k := range l.Layers {
		p := func(kind string) string { return fmt.Sprintf("%s.%s_l%d", l.Name, kind, k) }
		for e := range b.N {
			h, c := make([]float64, H), make([]float64, H)
			if b.State != nil {
				copy(h, b.State[e*size+*offset:])
				copy(c, b.State[e*size+*offset+H:])
			}
			for t := range b.Steps {
				r := t*b.N + e
				if b.Starts != nil && b.Starts[r] {
					h, c = make([]float64, H), make([]float64, H)
				}
				g := make([]float64, 4*H)
				for j := range g {
					g[j] = n.params[p("bias_ih")][j] + n.params[p("bias_hh")][j]
				}
				n.product(n.product(g, p("weight_ih"), rows[r]), p("weight_hh"), h)
				next := make([]float64, H)
				for j := range next {
					i, f, a, o := logistic(g[j]), logistic(g[H+j]), math.Tanh(g[2*H+j]), logistic(g[3*H+j])
					c[j] = f*c[j] + i*a
					next[j] = o * math.Tanh(c[j])
				}
				h = next
				rows[r] = h
			}
			copy(state[e*size+*offset:], h)
			copy(state[e*size+*offset+H:], c)
		}
		*offset += 2 * H
	}
	return rows
}

// towers returns the results of the towers for one observation: a row for each node, or one row.
// Towers with Detach pool the results in fixed, if it is not nil.
func (n *Network) towers(obs []float64, lstm func(models.Tower) [][]float64, fixed map[string][][]float64) map[string][][]float64 {
	results := map[string][][]float64{}
	for _, t := range n.Spec.Towers {
		x := lstm(t)
		switch {
		case t.Reads == "nodes":
			x = n.nodes(obs, x)
		case x != nil:
		case t.Reads == "":
			x = [][]float64{obs}
		case t.Detach && fixed != nil:
			x = [][]float64{pool(t.Pool, fixed[t.Reads])}
		default:
			x = [][]float64{pool(t.Pool, results[t.Reads])}
		}
		step := 2
		if t.LayerNorm {
			step = 3
		}
		for i := range t.Hidden {
			x = n.layer(t, fmt.Sprintf("%s.%d", t.Name, step*i), x, obs)
			for _, y := range x {
				if t.LayerNorm {
					n.norm(fmt.Sprintf("%s.%d", t.Name, step*i+1), y)
				}
				activate(t.Activation, y)
			}
		}
		results[t.Name] = x
	}
	return results
}

func activate(name string, y []float64) {
	for j, v := range y {
		if name == "tanh" {
			y[j] = math.Tanh(v)
		} else {
			y[j] = max(v, 0)
		}
	}
}

func (n *Network) heads(towers map[string][][]float64) []float64 {
	var outputs []float64
	for _, h := range n.Spec.Heads {
		if h.Free {
			outputs = append(outputs, n.params[h.Name]...)
			continue
		}
		for _, x := range towers[n.Spec.Towers[h.Tower].Name] {
			outputs = append(outputs, n.dense(h.Name, x)...)
		}
	}
	return outputs
}

// nodes returns each node's row, followed by the globals, which belong to no node or edge, and by the results of an
// LSTM beside it, if any.
func (n *Network) nodes(obs []float64, lstm [][]float64) [][]float64 {
	rows, globals := n.parts(obs)
	for i := range rows {
		rows[i] = append(rows[i], globals...)
		for _, beside := range lstm {
			rows[i] = append(rows[i], beside...)
		}
	}
	return rows
}

// parts returns the rows of the nodes and the globals.
func (n *Network) parts(obs []float64) (rows [][]float64, globals []float64) {
	s := n.Spec.Nodes
	for i, v := range obs {
		used := i >= s.Offset && i < s.Offset+s.N*s.Features
		if e := s.Edges; e != nil && e.N > 0 {
			used = used || i >= e.Offset && i < e.Offset+2*e.N
			used = used || e.Masked && i >= e.MaskOffset && i < e.MaskOffset+e.N
		}
		if !used {
			globals = append(globals, v)
		}
	}
	for i := range s.N {
		rows = append(rows, slices.Clone(obs[s.Offset+i*s.Features:][:s.Features]))
	}
	return rows, globals
}

// adjacency returns a matrix whose element [i][j] counts the edges from j to i.
func (n *Network) adjacency(obs []float64) [][]float64 {
	s := n.Spec.Nodes
	a := make([][]float64, s.N)
	for i := range a {
		a[i] = make([]float64, s.N)
	}
	add := func(from, to int) {
		a[to][from]++
		if s.Edges.Undirected && from != to {
			a[from][to]++
		}
	}
	for _, f := range s.Edges.Fixed {
		add(f[0], f[1])
	}
	for i := range s.Edges.N {
		if !s.Edges.Masked || obs[s.Edges.MaskOffset+i] != 0 {
			add(int(obs[s.Edges.Offset+2*i]), int(obs[s.Edges.Offset+2*i+1]))
		}
	}
	return a
}

func (n *Network) layer(t models.Tower, name string, x [][]float64, obs []float64) [][]float64 {
	y := make([][]float64, len(x))
	if t.Layer == "" {
		for i := range x {
			y[i] = n.dense(name, x[i])
		}
		return y
	}
	a := n.adjacency(obs)
	degree := make([]float64, len(x))
	for i := range a {
		if t.Layer == "gcn" {
			a[i][i] = 1 // each node has one loop, whatever the edges
		}
		for _, k := range a[i] {
			degree[i] += k
		}
	}
	for i := range x {
		z := make([]float64, len(x[i]))
		for j, k := range a[i] {
			scale := 0.0
			switch {
			case k == 0:
			case t.Layer == "gcn":
				scale = k / math.Sqrt(degree[i]*degree[j])
			default:
				scale = k / degree[i]
			}
			for c := range z {
				z[c] += scale * x[j][c]
			}
		}
		if t.Layer == "gcn" {
			y[i] = n.product(append([]float64(nil), n.params[name+".bias"]...), name+".lin.weight", z)
			continue
		}
		y[i] = n.product(append([]float64(nil), n.params[name+".lin_l.bias"]...), name+".lin_l.weight", z)
		n.product(y[i], name+".lin_r.weight", x[i])
	}
	return y
}

// norm follows the documentation of torch.nn.LayerNorm.
func (n *Network) norm(name string, y []float64) {
	mean, variance := 0.0, 0.0
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for _, v := range y {
		variance += (v - mean) * (v - mean) / float64(len(y))
	}
	for j, v := range y {
		y[j] = (v-mean)/math.Sqrt(variance+1e-5)*n.params[name+".weight"][j] + n.params[name+".bias"][j]
	}
}

func pool(kind string, x [][]float64) []float64 {
	width := len(x[0])
	mean, top := make([]float64, width), make([]float64, width)
	for j := range width {
		top[j] = math.Inf(-1)
		for i := range x {
			mean[j] += x[i][j] / float64(len(x))
			top[j] = max(top[j], x[i][j])
		}
	}
	switch kind {
	case "mean":
		return mean
	case "max":
		return top
	}
	return append(mean, top...)
}
