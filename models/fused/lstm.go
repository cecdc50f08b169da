package fused

import (
	"fmt"

	"github.com/kubernasium/kubernasium/models"
)

var _ models.Recurrent = (*Network)(nil)

// An lstm is a stack of cells, or one dense layer if it has none. Its passes run over the
// whole batch before and after those of the towers.
type lstm struct {
	cells   []cell
	in, out int
	param   int       // weight of the dense layer, before its bias
	pool    []pooling // of the nodes that it reads after the globals; empty if it reads the observation
	x       []float32 // (rows, in) globals and pooled nodes
	y       []float32 // results of the dense layer
	dOutput []float32 // (rows, out) gradients of the results, which towers add
}

// A cell is one layer of an LSTM. Rows are those of a sequence, (steps, n), and of the n
// environments. Its parameters are weight_ih, weight_hh, bias_ih and bias_hh from param on.
type cell struct {
	param, in, size int

	bias         []float32 // sum of both
	wih, whh     []float32 // transposed
	gates        []float32 // (rows, 4·size) i, f, g and o after their activations
	h, c, tanhC  []float32 // (rows, size)
	hPrev, cPrev []float32 // (rows, size) the state before each step
	dGates, dIn  []float32 // gradients of the gates before their activations and of what the cell reads
	dh, dc       []float32 // (n, size) gradients that come from the next step
}

func newLSTM(s models.LSTM, spec models.Spec, params []models.Param, param *int) *lstm {
	l := &lstm{in: params[*param].Shape[0], out: s.Hidden, param: *param}
	if s.Pool != "" {
		l.pool = newPoolings(s.Pool, spec.Nodes.N, spec.Nodes.Features)
		for _, p := range l.pool {
			p.grow(1) // no gradient needs the others
		}
	}
	if s.Layers == 0 {
		*param += 2
		return l
	}
	for range s.Layers {
		c := cell{param: *param, in: params[*param].Shape[0], size: s.Hidden}
		c.bias = aligned(4 * c.size)
		c.whh = aligned(4 * c.size * c.size)
		if len(l.cells) > 0 {
			c.wih = aligned(4 * c.size * c.in)
		}
		l.cells = append(l.cells, c)
		*param += 4
	}
	return l
}

func (l *lstm) grow(rows int) {
	l.dOutput = aligned(rows * l.out)
	if len(l.pool) > 0 {
		l.x = aligned(rows * l.in)
	}
	if len(l.cells) == 0 {
		l.y = aligned(rows * l.out)
	}
	for i := range l.cells {
		c := &l.cells[i]
		size := rows * c.size
		for _, x := range []*[]float32{&c.h, &c.c, &c.tanhC, &c.hPrev, &c.cPrev, &c.dh, &c.dc} {
			*x = aligned(size)
		}
		c.gates, c.dGates = aligned(4*size), aligned(4*size)
		if len(c.wih) > 0 {
			c.dIn = aligned(rows * c.in)
		}
	}
}

// output returns the results of the last layer.
func (l *lstm) output() []float32 {
	if top := len(l.cells) - 1; top >= 0 {
		return l.cells[top].h
	}
	return l.y
}

// StateSize implements [models.Recurrent].
func (n *Network) StateSize() int { return n.stateSize }

// ForwardStep implements [models.Recurrent]. It allocates only if no earlier batch had as many
// rows.
func (n *Network) ForwardStep(obs []float32, num int, state []float32, episodeStarts []bool) ([]float32, error) {
	outputs, err := n.ForwardSequence(obs, 1, num, state, episodeStarts)
	if err != nil {
		return nil, err
	}
	offset := 0
	for i := range n.lstms {
		for j := range n.lstms[i].cells {
			c := &n.lstms[i].cells[j]
			for r := range num {
				s := state[r*n.stateSize+offset:]
				copy(s[:c.size], c.h[r*c.size:])
				copy(s[c.size:2*c.size], c.c[r*c.size:])
			}
			offset += 2 * c.size
		}
	}
	return outputs, nil
}

// ForwardSequence implements [models.Recurrent]. It allocates only if no earlier batch had as
// many rows.
func (n *Network) ForwardSequence(obs []float32, steps, num int, state []float32, episodeStarts []bool) ([]float32, error) {
	if steps < 1 || num < 1 || len(state) != num*n.stateSize || len(episodeStarts) != steps*num {
		return nil, fmt.Errorf("%w: %d steps of %d environments with %d numbers of state and %d starts of episodes, want %d for each environment and one for each row",
			ErrBatch, steps, num, len(state), len(episodeStarts), n.stateSize)
	}
	return n.forward(obs, steps, num, state, episodeStarts)
}

// forwardLSTMs computes the LSTMs of the current batch. Without a state all rows begin with
// zeros.
func (n *Network) forwardLSTMs(state []float32, starts []bool) {
	offset := 0
	for i := range n.lstms {
		l := n.lstms[i]
		x := n.input
		if len(l.pool) > 0 {
			n.poolRows(l)
			x = l.x
		}
		if len(l.cells) == 0 {
			n.k.gemm(n.rows, l.out, l.in, matrix{x, l.in, 1}, n.params[l.param].Value, l.out, l.y, l.out, n.params[l.param+1].Value, 0)
		}
		for j := range l.cells {
			c := &l.cells[j]
			n.begin(c, state, offset)
			n.forwardCell(c, x, starts)
			offset += 2 * c.size
			x = c.h
		}
	}
}

// poolRows sets what an LSTM reads of the current batch: the globals, then the mean and the
// maximum of the nodes' rows, or one of them.
func (n *Network) poolRows(l *lstm) {
	nodes := n.nodes
	for r := range n.rows {
		obs, x := n.input[r*nodes.inputs:(r+1)*nodes.inputs], l.x[r*l.in:(r+1)*l.in]
		for _, g := range nodes.ranges {
			x = x[copy(x, obs[g.Start:g.End]):]
		}
		rows := obs[nodes.Offset : nodes.Offset+nodes.N*nodes.Features]
		for _, p := range l.pool {
			p.forward(n.k.kernels, x[:nodes.Features], rows, 0)
			x = x[nodes.Features:]
		}
	}
}

// begin sets the state before the first step.
func (n *Network) begin(c *cell, state []float32, offset int) {
	for r := range n.num {
		h, cell := c.hPrev[r*c.size:(r+1)*c.size], c.cPrev[r*c.size:(r+1)*c.size]
		if state == nil {
			clear(h)
			clear(cell)
			continue
		}
		s := state[r*n.stateSize+offset:]
		copy(h, s[:c.size])
		copy(cell, s[c.size:])
	}
}

func (n *Network) forwardCell(c *cell, x []float32, starts []bool) {
	copy(c.bias, n.params[c.param+2].Value)
	n.k.add(c.bias, n.params[c.param+3].Value)
	gates, num := 4*c.size, n.num
	n.k.gemm(n.rows, gates, c.in, matrix{x, c.in, 1}, n.params[c.param].Value, gates, c.gates, gates, c.bias, 0)
	for lo := 0; lo < n.rows; lo += num {
		for r := lo; r < lo+num; r++ {
			if starts != nil && starts[r] {
				clear(c.hPrev[r*c.size : (r+1)*c.size])
				clear(c.cPrev[r*c.size : (r+1)*c.size])
			}
		}
		g := c.gates[lo*gates : (lo+num)*gates]
		n.k.gemm(num, gates, c.size, matrix{c.hPrev[lo*c.size:], c.size, 1}, n.params[c.param+1].Value, gates, g, gates, g, gates)
		c.step(n.k, lo, num)
		if next := (lo + num) * c.size; lo+num < n.rows {
			copy(c.hPrev[next:next+num*c.size], c.h[lo*c.size:])
			copy(c.cPrev[next:next+num*c.size], c.c[lo*c.size:])
		}
	}
}

// step applies the activations of the gates of one step and computes c and h. The logistic
// function of x is (1+tanh(x/2))/2. The conversions keep the compiler from fusing products
// with sums.
func (c *cell) step(k variant, lo, num int) {
	H := c.size
	g := c.gates[lo*4*H : (lo+num)*4*H]
	logistic := func(f func(x []float32)) {
		for r := range num {
			f(g[r*4*H : r*4*H+2*H])
			f(g[r*4*H+3*H : (r+1)*4*H])
		}
	}
	logistic(halve)
	k.activate(g, false)
	logistic(shift)
	cell, tanhC := c.c[lo*H:(lo+num)*H], c.tanhC[lo*H:(lo+num)*H]
	for r := range num {
		row := g[r*4*H : (r+1)*4*H]
		in, forget, candidate := row[:H], row[H:2*H], row[2*H:3*H]
		prev, now := c.cPrev[(lo+r)*H:(lo+r+1)*H], cell[r*H:(r+1)*H]
		for j := range now {
			now[j] = float32(forget[j]*prev[j]) + float32(in[j]*candidate[j])
		}
	}
	copy(tanhC, cell)
	k.activate(tanhC, false)
	for r := range num {
		out, h, t := g[r*4*H+3*H:(r+1)*4*H], c.h[(lo+r)*H:(lo+r+1)*H], tanhC[r*H:(r+1)*H]
		for j := range h {
			h[j] = out[j] * t[j]
		}
	}
}

func halve(x []float32) {
	for i := range x {
		x[i] *= 0.5
	}
}

func shift(x []float32) {
	for i := range x {
		x[i] = float32(0.5*x[i]) + 0.5
	}
}

// backwardLSTMs sets the gradients of the LSTMs from those that towers have left.
func (n *Network) backwardLSTMs() {
	for i := range n.lstms {
		l := n.lstms[i]
		read := n.obs
		if len(l.pool) > 0 {
			read = l.x
		}
		if len(l.cells) == 0 {
			n.setGradient(l.param, read, l.in, l.dOutput, l.out, n.rows)
			n.setBias(l.param+1, l.dOutput, l.out)
			continue
		}
		d := l.dOutput
		for j := len(l.cells) - 1; j >= 0; j-- {
			c := &l.cells[j]
			x := read
			if j > 0 {
				x = l.cells[j-1].h
			}
			n.backwardCell(c, x, d)
			d = c.dIn
		}
	}
}

// backwardCell goes back through the steps. dOut, the gradient of the results, is for the
// cell to change.
func (n *Network) backwardCell(c *cell, x, dOut []float32) {
	H, num := c.size, n.num
	gates := 4 * H
	n.k.transpose(c.whh, n.params[c.param+1].Value, H, gates)
	clear(c.dc[:num*H])
	for lo := n.rows - num; lo >= 0; lo -= num {
		dh := dOut[lo*H : (lo+num)*H]
		if lo+num < n.rows {
			n.k.add(dh, c.dh)
		}
		c.stepGradient(dh, lo, num)
		if lo == 0 {
			break
		}
		n.k.gemm(num, H, gates, matrix{c.dGates[lo*gates:], gates, 1}, c.whh, H, c.dh, H, nil, 0)
		for r := range num {
			if len(n.starts) > 0 && n.starts[lo+r] {
				clear(c.dh[r*H : (r+1)*H])
				clear(c.dc[r*H : (r+1)*H])
			}
		}
	}
	n.setGradient(c.param, x, c.in, c.dGates, gates, n.rows)
	n.setGradient(c.param+1, c.hPrev, H, c.dGates, gates, n.rows)
	n.setBias(c.param+2, c.dGates, gates)
	copy(n.params[c.param+3].Grad, n.params[c.param+2].Grad)
	if len(c.wih) > 0 {
		n.k.transpose(c.wih, n.params[c.param].Value, c.in, gates)
		n.k.gemm(n.rows, c.in, gates, matrix{c.dGates, gates, 1}, c.wih, c.in, c.dIn, c.in, nil, 0)
	}
}

// stepGradient sets the gradients of the gates of one step and, in dc, that of the state
// before it.
func (c *cell) stepGradient(dh []float32, lo, num int) {
	H := c.size
	for r := range num {
		row, d := c.gates[(lo+r)*4*H:(lo+r+1)*4*H], c.dGates[(lo+r)*4*H:(lo+r+1)*4*H]
		in, forget, candidate, out := row[:H], row[H:2*H], row[2*H:3*H], row[3*H:]
		dIn, dForget, dCandidate, dOut := d[:H], d[H:2*H], d[2*H:3*H], d[3*H:]
		dh, dc := dh[r*H:(r+1)*H], c.dc[r*H:(r+1)*H]
		prev, t := c.cPrev[(lo+r)*H:(lo+r+1)*H], c.tanhC[(lo+r)*H:(lo+r+1)*H]
		for j, g := range dh {
			i, f, a, o := in[j], forget[j], candidate[j], out[j]
			cell := dc[j] + float32(g*o*(1-float32(t[j]*t[j])))
			dIn[j] = cell * a * i * (1 - i)
			dForget[j] = cell * prev[j] * f * (1 - f)
			dCandidate[j] = cell * i * (1 - float32(a*a))
			dOut[j] = g * t[j] * o * (1 - o)
			dc[j] = cell * f
		}
	}
}

// setGradient sets the gradient of a weight to xᵀ·d over the batch.
func (n *Network) setGradient(param int, x []float32, in int, d []float32, out, rows int) {
	n.k.gemm(in, out, rows, matrix{x, 1, in}, d, out, n.params[param].Grad, out, nil, 0)
}

// setBias sets the gradient of a bias to the sum of the rows of d.
func (n *Network) setBias(param int, d []float32, width int) {
	clear(n.params[param].Grad)
	n.k.sumRows(n.params[param].Grad, d, n.rows, width)
}
