package fused

import (
	"fmt"

	"github.com/kubernasium/kubernasium/models"
)

var _ models.Recurrent = (*Network)(nil)

// An lstm is a stack of cells, or one dense layer if it has none. It computes the whole batch before
// the towers, and its gradients after them.
type lstm struct {
	stack   // the source, and the dense layer if there are no cells
	cells   []*cell
	width   int       // of its results
	dOutput []float32 // (rows, width) gradients of the results, which towers add
}

// build adds the modules and cells of an LSTM.
func (l *lstm) build(c *cursor, n *Network, i int) {
	s := n.spec.LSTMs[i]
	if s.Pool == "" {
		l.push(given{func() []float32 { return n.obs }}, n.spec.Inputs)
	} else {
		l.push(newPooledRows(n, s.Pool), n.spec.LSTMInputs(i))
	}
	if s.Layers == 0 {
		layer := newDense(c, false)
		l.push(&layer, l.width)
	}
	for j := range s.Layers {
		offset := 0
		if k := len(n.cells); k > 0 {
			offset = n.cells[k-1].offset + 2*n.cells[k-1].size
		}
		l.cells = append(l.cells, newCell(c, offset, j > 0))
		n.cells = append(n.cells, l.cells[j])
	}
}

func (l *lstm) grow(rows int) {
	l.stack.grow(rows)
	for _, c := range l.cells {
		c.grow(rows)
	}
	l.dOutput = aligned(rows * l.width)
}

// results returns the results of all rows.
func (l *lstm) results() []float32 {
	if len(l.cells) > 0 {
		return l.cells[len(l.cells)-1].h
	}
	return l.stack[len(l.stack)-1].y
}

// pass returns the cell of a depth with its inputs and the gradients of its results.
func (l *lstm) pass(depth, rows int) pass {
	c := l.cells[depth]
	p := pass{c, l.stack[0].y, l.dOutput}
	if depth > 0 {
		p.x = l.cells[depth-1].h
	}
	if depth+1 < len(l.cells) {
		p.d = l.cells[depth+1].dx
	}
	p.x, p.d = p.x[:rows*c.in], p.d[:rows*c.size]
	return p
}

// forwardLSTMs computes the LSTMs of the current batch. Without a state all rows begin with
// zeros.
func (n *Network) forwardLSTMs(state []float32) {
	w := n.wholeBatch()
	for _, l := range n.lstms {
		l.forward(w)
	}
	for _, c := range n.cells {
		c.load(state, n.stateSize, n.num)
	}
	n.recurrence.forward()
}

// backwardLSTMs sets the gradients of the LSTMs from those of their results, which towers have added.
func (n *Network) backwardLSTMs() {
	n.recurrence.backward()
	w := n.wholeBatch()
	for _, l := range n.lstms {
		if len(l.cells) == 0 {
			l.backward(w, l.dOutput)
		}
	}
}

// wholeBatch returns a worker whose tile is the current batch.
func (n *Network) wholeBatch() *worker {
	w := n.workers[0]
	w.tile = tile{rows: n.rows, items: n.rows, set: true, first: true}
	return w
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
	for _, c := range n.cells {
		c.save(state, n.stateSize, num)
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
