package fused

import "github.com/kubernasium/kubernasium/models/team"

const (
	cellRows    = 64 // rows of a part of the passes that do not depend on other steps
	cellColumns = 64 // columns of a part of the gradients of a cell's weights
)

// A recurrence lets several workers compute the cells of equal depth of all LSTMs, one depth after the other.
// A worker goes through all steps of some environments, whose rows do not depend on others, and sums some columns
// of a weight's gradient over all rows, so that bits do not depend on the number of workers.
type recurrence struct {
	net  *Network
	now  []pass // of the depth in work
	each int    // environments of a part

	inputs, steps, gradients, parameters, below func(worker, part int) // stored, so that a pass allocates nothing
}

// A pass is a cell in work.
type pass struct {
	*cell
	x, d []float32 // what it reads, and the gradients of its results
}

func (r *recurrence) bind(n *Network) {
	r.net = n
	r.inputs, r.steps, r.gradients, r.parameters, r.below = r.forwardInputs, r.forwardSteps, r.backwardSteps, r.addParameters, r.backwardInputs
}

// shared reports whether a pass over the current batch is worth several workers.
func (r *recurrence) shared() bool {
	products := 0
	for _, c := range r.net.cells {
		products += 4 * c.size * (c.in + c.size)
	}
	return r.net.worth(r.net.rows * products)
}

// forward does what forward of all LSTMs does.
func (r *recurrence) forward() {
	w := r.net.wholeBatch()
	for depth := range r.deepest() {
		r.now = r.now[:0]
		for _, l := range r.net.lstms {
			if depth >= len(l.stack) {
				continue
			}
			var x []float32
			if depth > 0 {
				x = l.stack[depth-1].results(w)
			}
			if c, ok := l.stack[depth].module.(*cell); ok {
				c.sumBias(w.k)
				r.now = append(r.now, pass{cell: c, x: x})
			} else {
				l.stack[depth].forward(w, x, l.stack[depth].results(w))
			}
		}
		r.do(team.Blocks(r.net.rows, cellRows), r.inputs)
		r.do(r.blocks(), r.steps)
	}
}

// backward does what backward of all LSTMs does.
func (r *recurrence) backward() {
	w := r.net.wholeBatch()
	for depth := r.deepest() - 1; depth > 0; depth-- { // the first module is a source
		r.now = r.now[:0]
		for _, l := range r.net.lstms {
			if depth >= len(l.stack) {
				continue
			}
			s, x, d := &l.stack[depth], l.stack[depth-1].results(w), l.dOutput
			if depth+1 < len(l.stack) {
				d = l.stack[depth+1].module.(*cell).dx
			}
			d = d[:w.items*s.width]
			if c, ok := s.module.(*cell); ok {
				r.now = append(r.now, pass{cell: c, x: x, d: d})
			} else {
				s.backward(w, x, s.results(w), d)
			}
		}
		r.do(r.blocks(), r.gradients)
		r.do(r.columns(), r.parameters)
		for _, c := range r.now {
			copy(w.gradient(c.biasH), w.gradient(c.biasX))
		}
		r.do(team.Blocks(r.net.rows, cellRows), r.below)
	}
}

// deepest returns the length of the longest stack.
func (r *recurrence) deepest() int {
	deepest := 0
	for _, l := range r.net.lstms {
		deepest = max(deepest, len(l.stack))
	}
	return deepest
}

// do gives each cell in work so many parts.
func (r *recurrence) do(parts int, f func(worker, part int)) { r.net.team.Do(parts*len(r.now), f) }

// cell returns the cell of a part and its number among the parts of that cell.
func (r *recurrence) cell(part int) (c *pass, of int) {
	return &r.now[part%len(r.now)], part / len(r.now)
}

// blocks returns the number of parts that the environments of a cell make. The fewer, the more rows share a
// read of the weights.
func (r *recurrence) blocks() int {
	if len(r.now) == 0 {
		return 0
	}
	r.each = team.Blocks(r.net.num, max(1, r.net.active/len(r.now)))
	return team.Blocks(r.net.num, r.each)
}

// columns returns the number of parts that the gradients of a cell's weights make.
func (r *recurrence) columns() int {
	widest := 0
	for _, c := range r.now {
		widest = max(widest, 4*c.size)
	}
	return 2 * team.Blocks(widest, cellColumns)
}

func (r *recurrence) forwardInputs(worker, part int) {
	c, of := r.cell(part)
	lo, hi := team.Block(of, r.net.rows, cellRows)
	c.cell.forwardInputs(r.net.workers[worker].k, c.x, lo, hi)
}

func (r *recurrence) forwardSteps(worker, part int) {
	c, of := r.cell(part)
	from, to := team.Block(of, r.net.num, r.each)
	c.cell.forwardSteps(r.net.workers[worker].k, r.net.rows, r.net.num, from, to, r.net.starts)
}

func (r *recurrence) backwardSteps(worker, part int) {
	c, of := r.cell(part)
	from, to := team.Block(of, r.net.num, r.each)
	c.cell.backwardSteps(r.net.workers[worker].k, c.d, r.net.rows, r.net.num, from, to, r.net.starts)
}

func (r *recurrence) addParameters(worker, part int) {
	c, of := r.cell(part)
	from, to := team.Block(of/2, 4*c.size, cellColumns)
	if from >= to {
		return // others are wider
	}
	w := r.net.workers[worker]
	w.tile = r.net.whole()
	if of%2 == 0 {
		c.cell.parameters(w, c.weightX, c.x, from, to)
	} else {
		c.cell.parameters(w, c.weightH, c.hPrev, from, to)
	}
}

func (r *recurrence) backwardInputs(worker, part int) {
	c, of := r.cell(part)
	if len(c.wx) > 0 {
		lo, hi := team.Block(of, r.net.rows, cellRows)
		c.cell.backwardInputs(r.net.workers[worker].k, lo, hi)
	}
}
