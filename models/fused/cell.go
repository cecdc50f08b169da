package fused

// A cell is one layer of an LSTM over a whole batch. Its rows are those of a sequence, of shape
// (steps, n), for n environments.
type cell struct {
	weightX, weightH, biasX, biasH param

	in, size int
	offset   int // of its state, h and then c, in that of an environment

	bias         []float32 // sum of both
	wx, wh       []float32 // transposed; wx is empty if nothing needs the gradient of x
	gates        []float32 // (rows, 4·size) i, f, g and o after their activations
	h, c, tanhC  []float32 // (rows, size)
	hPrev, cPrev []float32 // (rows, size) the state before each step
	dGates, dx   []float32 // gradients of the gates before their activations and of x
	dh, dc       []float32 // (n, size) gradients that come from the next step
}

var _ module = (*cell)(nil)

func newCell(c *cursor, offset int, needsGradient bool) *cell {
	l := &cell{weightX: c.take(), weightH: c.take(), biasX: c.take(), biasH: c.take(), offset: offset}
	l.in, l.size = l.weightX.shape[0], l.weightH.shape[0]
	l.bias, l.wh = aligned(4*l.size), c.transposed(l.weightH, 0)
	if needsGradient {
		l.wx = c.transposed(l.weightX, 0)
	}
	return l
}

func (c *cell) grow(rows int, _ []float32) []float32 {
	size := rows * c.size
	for _, x := range []*[]float32{&c.h, &c.c, &c.tanhC, &c.hPrev, &c.cPrev, &c.dh, &c.dc} {
		*x = aligned(size)
	}
	c.gates, c.dGates = aligned(4*size), aligned(4*size)
	if len(c.wx) > 0 {
		c.dx = aligned(rows * c.in)
	}
	return c.h
}

// load sets the state before the first step to the caller's, or to zeros if state is nil.
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

// save copies the state after the last step to the caller's.
func (c *cell) save(state []float32, stateSize, num int) {
	for r := range num {
		s := state[r*stateSize+c.offset:]
		copy(s[:c.size], c.h[r*c.size:])
		copy(s[c.size:2*c.size], c.c[r*c.size:])
	}
}

// forward continues from the state that load has set.
func (c *cell) forward(w *worker, x, _ []float32) {
	c.sumBias(w.k)
	c.forwardInputs(w.k, x, 0, w.rows)
	c.forwardSteps(w.k, w.rows, w.net.num, 0, w.net.num, w.net.starts)
}

func (c *cell) sumBias(k kernels) {
	copy(c.bias, c.biasX.value)
	k.add(c.bias, c.biasH.value)
}

// forwardInputs sets the gates of rows lo to hi to the part that x has in them.
func (c *cell) forwardInputs(k kernels, x []float32, lo, hi int) {
	gates := 4 * c.size
	k.gemm(hi-lo, gates, c.in, matrix{x[lo*c.in:], c.in, 1}, c.weightX.value, gates, c.gates[lo*gates:], gates, c.bias, 0)
}

// forwardSteps goes through the steps of environments from up to but not including to, of num in all.
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

// backward goes back through the steps.
func (c *cell) backward(w *worker, x, _, d []float32) []float32 {
	c.backwardSteps(w.k, d, w.rows, w.net.num, 0, w.net.num, w.net.starts)
	c.parameters(w, c.weightX, x, 0, 4*c.size)
	c.parameters(w, c.weightH, c.hPrev, 0, 4*c.size)
	copy(w.gradient(c.biasH), w.gradient(c.biasX))
	if len(c.wx) == 0 {
		return nil
	}
	c.backwardInputs(w.k, 0, w.rows)
	return c.dx
}

// backwardSteps sets the gradients of the gates of environments from up to but not including to, of num in all.
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

// parameters adds the gradients of the columns from up to but not including to of a weight, whose rows
// multiply x, and with those of weightX the gradients of the bias.
func (c *cell) parameters(w *worker, p param, x []float32, from, to int) {
	in, gates := p.shape[0], 4*c.size
	g, d := w.gradient(p)[from:], c.dGates[from:]
	w.k.gemm(in, to-from, w.rows, matrix{x, 1, in}, d, gates, g, gates, w.sum(g), gates)
	if p.index != c.weightX.index {
		return
	}
	bias := w.gradient(c.biasX)[from:to]
	if w.set {
		clear(bias)
	}
	w.k.sumRows(bias, d, w.rows, gates)
}

// backwardInputs sets the gradients of rows lo to hi of x.
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
