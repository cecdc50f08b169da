package fused

import (
	"fmt"

	"github.com/kubernasium/kubernasium/models/team"
)

// ForwardBackward implements [models.Parter]. Where rows do not depend on each other, each tile passes forward and at
// once backward: its activations stay in the cache, in memory that the worker uses again for the next tile.
func (n *Network) ForwardBackward(obs, dOutputs []float32, rows int, before func(worker, lo, hi int), after func(worker, lo, hi int, outputs []float32), parts int, f func(worker, part int)) error {
	if !n.atOnce(rows) {
		if _, err := n.forwardParts(obs, rows, before, after); err != nil {
			return err
		}
		return n.BackwardBeside(dOutputs, parts, f)
	}
	if len(obs) != rows*n.spec.Inputs || len(dOutputs) != rows*n.width {
		return fmt.Errorf("%w: %d numbers and %d gradients for %d rows, want %d and %d for each",
			ErrBatch, len(obs), len(dOutputs), rows, n.spec.Inputs, n.width)
	}
	n.grow(rows)
	n.rows, n.input, n.dOut, n.before, n.after = rows, obs, dOutputs, before, after
	n.updateTransposes()
	n.resetTurns()
	n.apart.begin(1) // workers of all groups would wait for each other
	n.do(n.shards(), n.shardPart)
	n.apart.add()
	n.do(parts, f)
	n.rows, n.input, n.dOut, n.before, n.after = 0, nil, nil, nil, nil // Backward cannot follow
	return nil
}

// atOnce reports whether tiles of a batch pass forward and backward at once. Several workers share smaller batches by
// groups, so that each reads only the weights of its own.
func (n *Network) atOnce(rows int) bool {
	if rows < 1 || n.nodes != nil || len(n.lstms) > 0 {
		return false
	}
	shards := (rows + n.shard - 1) / n.shard
	return !n.worth(rows*n.rowWork) || shards >= 8*n.active
}

// computeShard computes outputs and gradients of a shard of all groups.
func (n *Network) computeShard(worker, shard int) {
	w := n.workers[worker]
	lo, hi := team.Block(shard, n.rows, n.shard)
	if n.apart.used {
		own := w.grads
		w.grads = n.apart.grads[shard]
		w.forwardBackward(worker, lo, hi)
		w.grads = own
		return
	}
	w.forwardBackward(worker, lo, hi)
	for _, g := range n.groups {
		w.addShard(g, shard)
	}
}

// forwardBackward computes rows lo to hi, a shard, of all groups; id is the worker's number.
func (w *worker) forwardBackward(id, lo, hi int) {
	n := w.net
	w.set, w.first = true, lo == 0
	for ; lo < hi; lo += n.tile {
		end := min(lo+n.tile, hi)
		w.shift = lo - id*n.tile
		n.before(id, lo, end)
		w.forward(n.towers, n.free, lo, end)
		n.after(id, lo, end, n.outputs[lo*n.width:end*n.width])
		for _, g := range n.groups {
			w.backwardTile(g)
		}
		w.set = false
	}
	w.shift = 0
}
