package fused

import "slices"

const (
	apartBytes = 1 << 23 // most memory for the gradients of shards
	apartChunk = 512     // parameters whose gradients a worker adds
)

// apart holds the gradients of each shard, if there are many workers: then no worker waits for its turn to add those of
// its shard. At the end, workers add the gradients of some parameters over all shards, in the order of the shards.
type apart struct {
	net    *Network
	used   bool          // in the current Backward
	grads  [][][]float32 // of each shard and parameter; the first shard's go to Param.Grad
	size   int           // number of parameters
	chunks []gradChunk
	part   func(worker, part int) // stored, so that a pass allocates nothing
}

// A gradChunk is a range of the elements of a parameter.
type gradChunk struct{ param, lo, hi int }

func (a *apart) bind(n *Network) {
	a.net, a.part = n, a.addChunk
	for _, g := range n.groups {
		for _, i := range g.params {
			size := len(n.params[i].Grad)
			a.size += size
			for lo := 0; lo < size; lo += apartChunk {
				a.chunks = append(a.chunks, gradChunk{i, lo, min(lo+apartChunk, size)})
			}
		}
	}
}

// begin decides whether the shards of the current batch are kept apart: if there are more workers than few, of whom few
// wait.
func (a *apart) begin(few int) {
	n := a.net
	shards := n.shards()
	a.used = n.shared() && n.active > few && shards > 1 && 4*a.size*shards <= apartBytes
	if !a.used {
		return
	}
	if len(a.grads) == 0 {
		a.grads = append(a.grads, nil) // the first shard needs none
	}
	for len(a.grads) < shards {
		a.grads = append(a.grads, newGrads(n))
	}
}

// add adds the gradients of all shards to those of the first.
func (a *apart) add() {
	if a.used {
		a.net.team.Do(len(a.chunks), a.part)
	}
}

func (a *apart) addChunk(worker, part int) {
	n, c := a.net, a.chunks[part]
	sum := n.params[c.param].Grad[c.lo:c.hi]
	for _, g := range a.grads[1:n.shards()] {
		n.workers[worker].k.add(sum, g[c.param][c.lo:c.hi])
	}
}

// newGrads returns memory for the gradients of all parameters.
func newGrads(n *Network) (grads [][]float32) {
	total := 0
	for _, p := range n.params {
		total += len(p.Grad)
	}
	flat := aligned(total)
	for _, p := range n.params {
		size := len(p.Grad)
		grads = append(grads, slices.Clip(flat[:size]))
		flat = flat[size:]
	}
	return grads
}
