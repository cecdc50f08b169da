package graph

import (
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/models"
)

// inputs are the buffers that the graphs of a batch read.
type inputs struct {
	rows, steps int
	obs         []float32
	nodeRows    []float32            // (rows, nodes) rows of nodes, each with the globals
	pooled      map[string][]float32 // (rows, LSTMInputs) globals and nodes pooled in ways that LSTMs read
	adjacency   map[string][]float32 // (rows, nodes, nodes) of SAGE and GCN, if used
	state       [][]float32          // (n, cells) h and c of each layer of LSTMs before the first step
	last        [][]float32          // the same after the last step
	keep        []float32            // (rows) 0 where an episode starts, else 1
	detached    [][]float32          // inputs of towers with Detach, nil for others
	selections  []selection          // of towers whose maximum others read, empty for others
}

// A selection holds the results of a node tower, of shape (rows, nodes, width), and 1 for each
// first maximum over the nodes, else 0.
type selection struct {
	width, nodes    int
	results, chosen []float32
}

// update sets chosen from results.
func (s *selection) update() {
	clear(s.chosen)
	size := s.nodes * s.width
	for lo := 0; lo < len(s.results); lo += size {
		for j := range s.width {
			best := lo + j
			for k := best; k < lo+size; k += s.width {
				if s.results[k] > s.results[best] {
					best = k
				}
			}
			s.chosen[best] = 1
		}
	}
}

func newInputs(spec models.Spec, steps, n int) inputs {
	in := inputs{rows: steps * n, steps: steps, obs: make([]float32, steps*n*spec.Inputs), keep: make([]float32, steps*n)}
	in.pooled = map[string][]float32{}
	for i, l := range spec.LSTMs {
		if l.Pool != "" {
			in.pooled[l.Pool] = make([]float32, in.rows*spec.LSTMInputs(i))
		}
		for range 2 * l.Layers {
			in.state = append(in.state, make([]float32, n*l.Hidden))
			in.last = append(in.last, make([]float32, n*l.Hidden))
		}
	}
	in.detached = make([][]float32, len(spec.Towers))
	in.selections = make([]selection, len(spec.Towers))
	in.adjacency = map[string][]float32{}
	for i, t := range spec.Towers {
		if t.Detach {
			width := spec.TowerInputs(i)
			if spec.PerNode(i) {
				width -= spec.NodeInputs()
			}
			in.detached[i] = make([]float32, in.rows*width)
		}
		if _, from := spec.Source(i); from >= 0 && slices.Contains(models.Poolings(t.Pool), models.Max) {
			s := &in.selections[from]
			s.width, s.nodes = spec.TowerOutputs(from), spec.Nodes.N
			s.results = make([]float32, in.rows*s.nodes*s.width)
			s.chosen = make([]float32, len(s.results))
		}
		if spec.PerNode(i) {
			in.nodeRows = make([]float32, in.rows*spec.Nodes.N*spec.NodeInputs())
		}
		if t.Layer != "" {
			in.adjacency[t.Layer] = make([]float32, in.rows*spec.Nodes.N*spec.Nodes.N)
		}
	}
	return in
}

// fill copies the arguments of a Forward. A nil state means zeros, nil starts mean none.
func (in *inputs) fill(spec models.Spec, obs, state []float32, starts []bool) error {
	copy(in.obs, obs)
	size, offset := spec.StateSize(), 0
	n := in.rows / in.steps
	for _, s := range in.state {
		cells := len(s) / n
		for r := range n {
			if state == nil {
				clear(s[r*cells : (r+1)*cells])
			} else {
				copy(s[r*cells:(r+1)*cells], state[r*size+offset:])
			}
		}
		offset += cells
	}
	for r := range in.keep {
		in.keep[r] = 1
		if starts != nil && starts[r] {
			in.keep[r] = 0
		}
	}
	if spec.Nodes == nil {
		return nil
	}
	in.fillNodes(spec)
	for pool, x := range in.pooled {
		in.fillPooled(spec, pool, x)
	}
	for kind, a := range in.adjacency {
		if err := in.fillAdjacency(spec, kind, a); err != nil {
			return err
		}
	}
	return nil
}

// takeState copies the state after the last step to rows of states.
func (in *inputs) takeState(size int, state []float32) {
	offset := 0
	n := in.rows / in.steps
	for _, s := range in.last {
		cells := len(s) / n
		for r := range n {
			copy(state[r*size+offset:], s[r*cells:(r+1)*cells])
		}
		offset += cells
	}
}

func (in *inputs) fillNodes(spec models.Spec) {
	at, globals := 0, spec.Globals()
	for r := range in.rows {
		obs := in.obs[r*spec.Inputs : (r+1)*spec.Inputs]
		for i := range spec.Nodes.N {
			if at == len(in.nodeRows) { // without node towers
				return
			}
			first := spec.Nodes.Offset + i*spec.Nodes.Features
			at += copy(in.nodeRows[at:], obs[first:first+spec.Nodes.Features])
			for _, g := range globals {
				at += copy(in.nodeRows[at:], obs[g.Start:g.End])
			}
		}
	}
}

// fillPooled sets x to the input of LSTMs with that pool.
func (in *inputs) fillPooled(spec models.Spec, pool string, x []float32) {
	nodes, poolings := spec.Nodes, models.Poolings(pool)
	for r := range in.rows {
		obs := in.obs[r*spec.Inputs : (r+1)*spec.Inputs]
		for _, g := range spec.Globals() {
			x = x[copy(x, obs[g.Start:g.End]):]
		}
		rows := obs[nodes.Offset : nodes.Offset+nodes.N*nodes.Features]
		for _, p := range poolings {
			for j := range nodes.Features {
				x[j] = poolColumn(p, rows[j:], nodes.Features)
			}
			x = x[nodes.Features:]
		}
	}
}

// poolColumn pools every stride-th element of x.
func poolColumn(pool string, x []float32, stride int) float32 {
	sum, n, top := 0.0, 0, x[0]
	for i := 0; i < len(x); i += stride {
		sum += float64(x[i])
		n++
		top = max(top, x[i])
	}
	if pool == models.Mean {
		return float32(sum / float64(n))
	}
	return top
}

// fillAdjacency sets a[row, i, j] to the weight of the message from node j to node i.
func (in *inputs) fillAdjacency(spec models.Spec, kind string, a []float32) error {
	nodes := spec.Nodes.N
	clear(a)
	var edges [][2]int32
	degree := make([]float64, nodes)
	for r := range in.rows {
		var err error
		if edges, err = spec.AppendEdges(edges[:0], in.obs[r*spec.Inputs:(r+1)*spec.Inputs]); err != nil {
			return err
		}
		m := a[r*nodes*nodes : (r+1)*nodes*nodes]
		for _, e := range edges {
			m[int(e[1])*nodes+int(e[0])]++
		}
		for i := range nodes {
			row := m[i*nodes : (i+1)*nodes]
			if kind == models.GCN {
				row[i] = 1
			}
			degree[i] = 0
			for _, k := range row {
				degree[i] += float64(k)
			}
		}
		for i := range nodes {
			for j, k := range m[i*nodes : (i+1)*nodes] {
				switch {
				case k == 0:
				case kind == models.GCN:
					m[i*nodes+j] = float32(float64(k) / math.Sqrt(degree[i]*degree[j]))
				default:
					m[i*nodes+j] = float32(float64(k) / degree[i])
				}
			}
		}
	}
	return nil
}
