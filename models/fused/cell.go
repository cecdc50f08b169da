package fused

// A cell is one layer of an LSTM over a whole batch. Its rows are those of a sequence, of shape
// (steps, n), for n environments.
type cell struct {
	weightX, weightH, biasX, biasH param

	in, size int
	offset   int // of its state (h, then c) in the state of an environment

	bias         []float32 // biasX + biasH
	wx, wh       []float32 // transposed weights; wx is empty if the gradient of x is not needed
	gates        []float32 // (rows, 4·size) i, f, g and o after their activations
	h, c, tanhC  []float32 // (rows, size)
	hPrev, cPrev []float32 // (rows, size) the state before each step
	dGates, dx   []float32 // gradients of the gates before their activations, and of x
	dh, dc       []float32 // (n, size) gradients from the next step
}

func newCell(c *cursor, offset int, needsGradient bool) *cell {
	l := &cell{weightX: c.take(), weightH: c.take(), biasX: c.take(), biasH: c.take(), offset: offset}
	l.in, l.size = l.weightX.shape[0], l.weightH.shape[0]
	l.bias, l.wh = aligned(4*l.size), c.transposed(l.weightH, 0)
	if needsGradient {
		l.wx = c.transposed(l.weightX, 0)
	}
	return l
}

func (c *cell) grow(rows int) {
	size := rows * c.size
	for _, x := range []*[]float32{&c.h, &c.c, &c.tanhC, &c.hPrev, &c.cPrev, &c.dh, &c.dc} {
		*x = aligned(size)
	}
	c.gates, c.dGates = aligned(4*size), aligned(4*size)
	if len(c.wx) > 0 {
		c.dx = aligned(rows * c.in)
	}
}

// load copies the state before the first step from state, or sets it to zeros if state is nil.
func (c *cell) load(state []float32, stateSize, num int) {
	for r := range num {
		h, cell := c.hPrev[r*c.size:(r+1)*c.size], c.cPrev[r*c.size:(r+1)*c.size]
		if state == nil {
			clear(h)
			clear(cell)
			continue
		}
		s := state[r*stateSize+c.offset:]
		copy(h, s[:c.size])
		copy(cell, s[c.size:])
	}
}

// save copies the state after a single step to state.
func (c *cell) save(state []float32, stateSize, num int) {
	for r := range num {
		s := state[r*stateSize+c.offset:]
		copy(s[:c.size], c.h[r*c.size:])
		copy(s[c.size:2*c.size], c.c[r*c.size:])
	}
}

// sumBias sets bias to the sum of both biases.
func (c *cell) sumBias(k kernels) {
	copy(c.bias, c.biasX.value)
	k.add(c.bias, c.biasH.value)
}

// forwardInputs sets the gates of rows [lo, hi) to x·weightX + bias; the steps add the rest.
func (c *cell) forwardInputs(k kernels, x []float32, lo, hi int) {
	gates := 4 * c.size
	k.gemm(hi-lo, gates, c.in, matrix{x[lo*c.in:], c.in, 1}, c.weightX.value, gates, c.gates[lo*gates:], gates, c.bias, 0)
}

// forwardSteps computes all steps of environments [from, to) of num.
func (c *cell) forwardSteps(k kernels, rows, num, from, to int, starts []bool) {
	gates, n := 4*c.size, to-from
	for lo := from; lo < rows; lo += num {
		for r := lo; r < lo+n; r++ {
			if len(starts) > 0 && starts[r] {
				clear(c.hPrev[r*c.size : (r+1)*c.size])
				clear(c.cPrev[r*c.size : (r+1)*c.size])
			}
		}
		g := c.gates[lo*gates : (lo+n)*gates]
		k.gemm(n, gates, c.size, matrix{c.hPrev[lo*c.size:], c.size, 1}, c.weightH.value, gates, g, gates, g, gates)
		c.step(k, lo, n)
		if next := lo + num; next < rows {
			copy(c.hPrev[next*c.size:(next+n)*c.size], c.h[lo*c.size:])
			copy(c.cPrev[next*c.size:(next+n)*c.size], c.c[lo*c.size:])
		}
	}
}

// step applies the activations of the gates of one step and computes c and h. The logistic
// function of x is (1+tanh(x/2))/2. The conversions keep the compiler from fusing products
// with sums.
func (c *cell) step(k kernels, lo, num int) {
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

// backwardSteps sets the gradients of the gates of environments [from, to) of num, from the last step to the first.
func (c *cell) backwardSteps(k kernels, d []float32, rows, num, from, to int, starts []bool) {
	H, gates, n := c.size, 4*c.size, to-from
	dhNext, dc := c.dh[from*H:to*H], c.dc[from*H:to*H]
	clear(dc)
	for lo := rows - num + from; lo >= 0; lo -= num {
		dh := d[lo*H : (lo+n)*H]
		if lo+num < rows {
			k.add(dh, dhNext)
		}
		c.stepGradient(dh, dc, lo, n)
		if lo == from {
			break
		}
		k.gemm(n, H, gates, matrix{c.dGates[lo*gates:], gates, 1}, c.wh, H, dhNext, H, nil, 0)
		for r := range n {
			if len(starts) > 0 && starts[lo+r] {
				clear(dhNext[r*H : (r+1)*H])
				clear(dc[r*H : (r+1)*H])
			}
		}
	}
}

// parameters sets the gradients of columns [from, to) of a weight, whose rows multiply x, and for weightX
// also those of biasX.
func (c *cell) parameters(k kernels, p param, x []float32, rows, from, to int) {
	in, gates := p.shape[0], 4*c.size
	d := c.dGates[from:]
	k.gemm(in, to-from, rows, matrix{x, 1, in}, d, gates, p.grad[from:], gates, nil, 0)
	if p.index == c.weightX.index {
		bias := c.biasX.grad[from:to]
		clear(bias)
		k.sumRows(bias, d, rows, gates)
	}
}

// backwardInputs sets the gradients of rows [lo, hi) of x.
func (c *cell) backwardInputs(k kernels, lo, hi int) {
	gates := 4 * c.size
	k.gemm(hi-lo, c.in, gates, matrix{c.dGates[lo*gates:], gates, 1}, c.wx, c.in, c.dx[lo*c.in:], c.in, nil, 0)
}

// stepGradient sets the gradients of the gates of one step and, in dc, that of the state before it.
func (c *cell) stepGradient(dh, dc []float32, lo, num int) {
	H := c.size
	for r := range num {
		row, d := c.gates[(lo+r)*4*H:(lo+r+1)*4*H], c.dGates[(lo+r)*4*H:(lo+r+1)*4*H]
		in, forget, candidate, out := row[:H], row[H:2*H], row[2*H:3*H], row[3*H:]
		dIn, dForget, dCandidate, dOut := d[:H], d[H:2*H], d[2*H:3*H], d[3*H:]
		dh, dc := dh[r*H:(r+1)*H], dc[r*H:(r+1)*H]
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
