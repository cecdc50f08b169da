package fused

import "github.com/kubernasium/kubernasium/models/team"

const (
	cellRows    = 64 // rows in a part of the work that does not depend on other steps
	cellColumns = 64 // columns in a part of the gradients of a cell's weights
)

// A recurrence computes the cells of all LSTMs. Workers share a large batch: they compute all cells of equal depth at
// once, in parts. A part is some environments with all steps, some rows, or some columns of a weight's gradient summed
// over all rows, so that bits do not depend on the number of workers. In a small batch, each cell is one part.
type recurrence struct {
	net    *Network
	shared bool   // workers share the current batch
	now    []pass // the cells being computed

	rows, envs, columns int // rows, environments and columns in a part

	inputs, steps, gradients, parameters, below func(worker, part int) // stored, so that a pass allocates nothing
}

// A pass is a cell being computed.
type pass struct {
	*cell
	x, d []float32 // its inputs, and the gradients of its results
}

func (r *recurrence) bind(n *Network) {
	r.net = n
	r.inputs, r.steps, r.gradients, r.parameters, r.below = r.forwardInputs, r.forwardSteps, r.backwardSteps, r.addParameters, r.backwardInputs
}

// forward computes the results of all cells, from the state that load has set.
func (r *recurrence) forward() {
	for depth := range r.begin() {
		r.each(depth, r.forwardCells)
	}
}

// backward sets the gradients of all cells from those of the LSTMs' results.
func (r *recurrence) backward() {
	for depth := r.begin() - 1; depth >= 0; depth-- {
		r.each(depth, r.backwardCells)
	}
}

// begin decides whether workers share the current batch, and returns the depth of the deepest LSTM.
func (r *recurrence) begin() (depth int) {
	products := 0
	for _, c := range r.net.cells {
		products += 4 * c.size * (c.in + c.size)
	}
	r.shared = r.net.worth(r.net.rows * products)
	for _, l := range r.net.lstms {
		depth = max(depth, len(l.cells))
	}
	return depth
}

// each calls compute for the cells of a depth: for all at once if workers share the batch, otherwise one by one.
func (r *recurrence) each(depth int, compute func()) {
	r.now = r.now[:0]
	for _, l := range r.net.lstms {
		if depth >= len(l.cells) {
			continue
		}
		r.now = append(r.now, l.pass(depth, r.net.rows))
		if !r.shared {
			compute()
			r.now = r.now[:0]
		}
	}
	if len(r.now) > 0 {
		compute()
	}
}

func (r *recurrence) forwardCells() {
	for _, c := range r.now {
		c.sumBias(r.net.k.kernels)
	}
	r.divide()
	r.do(team.Blocks(r.net.rows, r.rows), r.inputs)
	r.do(team.Blocks(r.net.num, r.envs), r.steps)
}

func (r *recurrence) backwardCells() {
	r.divide()
	r.do(team.Blocks(r.net.num, r.envs), r.gradients)
	r.do(2*team.Blocks(r.widest(), r.columns), r.parameters)
	for _, c := range r.now {
		copy(c.biasH.grad, c.biasX.grad)
	}
	r.do(team.Blocks(r.net.rows, r.rows), r.below)
}

// divide sets the sizes of parts. The fewer parts the environments make, the more rows share a read of the weights.
func (r *recurrence) divide() {
	r.rows, r.envs, r.columns = r.net.rows, r.net.num, r.widest()
	if r.shared {
		r.rows, r.envs, r.columns = cellRows, team.Blocks(r.net.num, max(1, r.net.active/len(r.now))), cellColumns
	}
}

// widest returns the largest number of gates of the cells being computed.
func (r *recurrence) widest() (gates int) {
	for _, c := range r.now {
		gates = max(gates, 4*c.size)
	}
	return gates
}

// do computes the parts of each cell; parts is their number for one cell.
func (r *recurrence) do(parts int, f func(worker, part int)) {
	parts *= len(r.now)
	if r.shared {
		r.net.team.Do(parts, f)
		return
	}
	for part := range parts {
		f(0, part)
	}
}

// cell returns the cell of a part and its number among the parts of that cell.
func (r *recurrence) cell(part int) (c *pass, of int) {
	return &r.now[part%len(r.now)], part / len(r.now)
}

func (r *recurrence) forwardInputs(_, part int) {
	c, of := r.cell(part)
	lo, hi := team.Block(of, r.net.rows, r.rows)
	c.cell.forwardInputs(r.net.k.kernels, c.x, lo, hi)
}

func (r *recurrence) forwardSteps(_, part int) {
	c, of := r.cell(part)
	from, to := team.Block(of, r.net.num, r.envs)
	c.cell.forwardSteps(r.net.k.kernels, r.net.rows, r.net.num, from, to, r.net.starts)
}

func (r *recurrence) backwardSteps(_, part int) {
	c, of := r.cell(part)
	from, to := team.Block(of, r.net.num, r.envs)
	c.cell.backwardSteps(r.net.k.kernels, c.d, r.net.rows, r.net.num, from, to, r.net.starts)
}

func (r *recurrence) addParameters(_, part int) {
	c, of := r.cell(part)
	from, to := team.Block(of/2, 4*c.size, r.columns)
	switch {
	case from >= to: // another cell is wider
	case of%2 == 0:
		c.parameters(r.net.k.kernels, c.weightX, c.x, r.net.rows, from, to)
	default:
		c.parameters(r.net.k.kernels, c.weightH, c.hPrev, r.net.rows, from, to)
	}
}

func (r *recurrence) backwardInputs(_, part int) {
	c, of := r.cell(part)
	if len(c.wx) > 0 {
		lo, hi := team.Block(of, r.net.rows, r.rows)
		c.cell.backwardInputs(r.net.k.kernels, lo, hi)
	}
}
