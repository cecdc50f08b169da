package fused

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/models/team"
)

const (
	// minWork is the number of multiplications from which a pass is shared with other goroutines: tens of microseconds.
	minWork = 1 << 20

	// minAwake is the same if helpers stay awake.
	minAwake = 1 << 18

	// forwardRows is the least number of rows in a part of a forward pass.
	forwardRows = 16
)

// A group is a set of towers connected by pooling. Groups share only observations and rows of
// outputs, so workers can compute them concurrently.
type group struct {
	towers []*tower // ascending
	free   []*freeHead
	params []int // of the towers and their heads

	mu     sync.Mutex
	turn   atomic.Int64 // the shard whose gradients are added next; written under mu
	turned *sync.Cond   // signals a change of turn
}

// Team returns the goroutines that share batches, for other work of a training. That work must not call n.
func (n *Network) Team() *team.Team { return n.team }

// group divides the towers into groups. With LSTMs all towers are one group, since they may share an LSTM.
func (n *Network) group(params [][]int) {
	of := make([]*group, len(n.towers))
	for i, tw := range n.towers {
		_, from := n.spec.Source(i)
		switch {
		case from >= 0:
			of[i] = of[from]
		case i > 0 && len(n.lstms) > 0:
			of[i] = of[0]
		default:
			of[i] = &group{}
			of[i].turned = sync.NewCond(&of[i].mu)
			n.groups = append(n.groups, of[i])
		}
		of[i].towers = append(of[i].towers, tw)
		of[i].params = append(of[i].params, params[i]...)
	}
	first := n.groups[0]
	first.free = n.free
	for _, h := range n.free {
		first.params = append(first.params, h.value.index)
	}
}

// shared reports whether workers should share a pass over the current batch.
func (n *Network) shared() bool {
	return n.worth(n.rows * n.rowWork)
}

// worth reports whether workers should share the given number of multiplications.
func (n *Network) worth(products int) bool {
	least := n.minWork
	if n.team.Stays() {
		least = min(least, minAwake)
	}
	return n.active > 1 && products >= least
}

// do computes the parts of a pass.
func (n *Network) do(parts int, f func(worker, part int)) {
	if n.shared() {
		n.team.Do(parts, f)
		return
	}
	for part := range parts {
		f(0, part)
	}
}

// runForward computes the outputs of the current batch. Rows do not depend on each other.
func (n *Network) runForward() {
	if n.inLanes() {
		n.callParts(n.beforePart, n.rows, n.before != nil)
		copy(n.obs, n.input)
		n.input = nil
		n.team.Lanes(len(n.groups), n.forwardLane)
		n.callParts(n.afterPart, n.rows, n.after != nil)
		return
	}
	n.stride = n.tile
	if n.shared() && n.nodes == nil {
		each := (n.rows + n.active - 1) / n.active
		n.stride = min(n.tile, (each+forwardRows-1)/forwardRows*forwardRows)
	}
	n.do((n.rows+n.stride-1)/n.stride, n.forwardPart)
}

func (n *Network) computeForward(worker, part int) {
	lo, hi := team.Block(part, n.rows, n.stride)
	if n.before != nil {
		n.before(worker, lo, hi)
	}
	n.workers[worker].forward(n.towers, n.free, lo, hi)
	if n.after != nil {
		n.after(worker, lo, hi, n.outputs[lo*n.width:hi*n.width])
	}
}

// inLanes reports whether each worker computes one group for all rows. Then a group's activations and gradients stay in
// one cache, and shards do not wait.
func (n *Network) inLanes() bool { return n.balanced && n.active == len(n.groups) && n.shared() }

func (n *Network) computeForwardLane(worker, lane int) {
	g := n.groups[lane]
	n.workers[worker].forward(g.towers, g.free, 0, n.rows)
}

// computeBetweenLanes computes what lasts too short to be divided: parts beside the backward pass, and transposes for it.
func (n *Network) computeBetweenLanes(worker, part int) {
	if part < n.beside {
		n.besidePart(worker, part)
	} else {
		n.updateTranspose(part - n.beside)
	}
}

func (n *Network) computeBackwardLane(worker, lane int) {
	g, w := n.groups[lane], n.workers[worker]
	for lo := 0; lo < n.rows; lo += n.shard {
		w.backward(g, lo, min(lo+n.shard, n.rows))
		w.addShard(g, lo/n.shard)
	}
}

// balance determines whether the groups have about equal work; size is the work of each tower for a row.
func (n *Network) balance(size []int) {
	least, most := math.MaxInt, 0
	for _, g := range n.groups {
		sum := 0
		for _, tw := range g.towers {
			sum += size[tw.index]
		}
		least, most = min(least, sum), max(most, sum)
	}
	n.balanced = len(n.lstms) == 0 && n.nodes == nil && 5*least >= 4*most
}

// runBackward computes the gradients of the current batch; a part is a shard and a group. Parts start in order, so a
// part waits only for parts that have started.
func (n *Network) runBackward() {
	n.resetTurns()
	if n.inLanes() {
		n.do(n.beside+len(n.transposes), n.betweenLanes)
		n.team.Lanes(len(n.groups), n.backwardLane)
		return
	}
	n.updateTransposes()
	shards := n.shards()
	n.apart.begin(len(n.groups))
	n.do(n.beside+shards*len(n.groups), n.backwardPart)
	n.apart.add()
}

// resetTurns has the gradients of the first shard added first.
func (n *Network) resetTurns() {
	for _, g := range n.groups {
		g.turn.Store(0)
	}
}

// shards returns the number of shards of the current batch.
func (n *Network) shards() int { return (n.rows + n.shard - 1) / n.shard }

func (n *Network) computeBackward(worker, part int) {
	if part < n.beside {
		n.besidePart(worker, part)
		return
	}
	part -= n.beside
	shard, g := part/len(n.groups), n.groups[part%len(n.groups)]
	lo := shard * n.shard
	w := n.workers[worker]
	if n.apart.used {
		own := w.grads
		w.grads = n.apart.grads[shard]
		w.backward(g, lo, min(lo+n.shard, n.rows))
		w.grads = own
		return
	}
	w.backward(g, lo, min(lo+n.shard, n.rows))
	w.addShard(g, shard)
}

// addShard adds the gradients of a group's shard to Param.Grad after those of the shards before it.
func (w *worker) addShard(g *group, shard int) {
	g.await(int64(shard))
	if shard > 0 { // the first shard has written there directly
		for _, i := range g.params {
			w.k.add(w.net.params[i].Grad, w.grads[i])
		}
	}
	g.mu.Lock()
	g.turn.Store(int64(shard) + 1)
	g.mu.Unlock()
	g.turned.Broadcast()
}

// await returns when it is the shard's turn. Earlier shards usually end soon, so it spins before it sleeps.
func (g *group) await(shard int64) {
	for range 64 {
		for range 16 {
			if g.turn.Load() == shard {
				return
			}
			team.Pause()
		}
		runtime.Gosched()
	}
	g.mu.Lock()
	for g.turn.Load() != shard {
		g.turned.Wait()
	}
	g.mu.Unlock()
}
