package fused

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/models/team"
)

const (
	// minWork is the least number of products of a row's element with a parameter that are worth a hand-over
	// to another goroutine: tens of microseconds.
	minWork = 1 << 20

	// minAwake is the same for helpers that stay awake.
	minAwake = 1 << 18

	// forwardRows is the least number of rows in a part of a forward pass.
	forwardRows = 16
)

// A group is a set of towers that no other tower pools or is pooled by. Groups share nothing but the
// observations and rows of outputs, so that several workers compute them at one time.
type group struct {
	towers []*tower // in rising order
	free   []*freeHead
	params []int // of the towers and their heads

	mu     sync.Mutex
	turn   atomic.Int64 // next shard to add its gradients; written under mu
	turned *sync.Cond   // turn has changed
}

// Team returns the goroutines that share batches, for the other work of a training. They must not call n.
func (n *Network) Team() *team.Team { return n.team }

// group splits the towers into groups. Towers that read LSTMs share these, and are one group.
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

// shared reports whether a pass over the current batch is worth several workers.
func (n *Network) shared() bool {
	return n.worth(n.rows * n.rowWork)
}

// worth reports whether so many products are worth several workers.
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
		copy(n.obs, n.input)
		n.input = nil
		n.team.Lanes(len(n.groups), n.forwardLane)
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
	lo := part * n.stride
	n.workers[worker].forward(n.towers, n.free, lo, min(lo+n.stride, n.rows))
}

// inLanes reports whether each worker computes one group for all rows, so that a group's activations and gradients
// stay in its cache and no shard waits for another.
func (n *Network) inLanes() bool { return n.balanced && n.active == len(n.groups) && n.shared() }

func (n *Network) computeForwardLane(worker, lane int) {
	g := n.groups[lane]
	n.workers[worker].forward(g.towers, g.free, 0, n.rows)
}

func (n *Network) computeBackwardLane(worker, lane int) {
	g, w := n.groups[lane], n.workers[worker]
	for lo := 0; lo < n.rows; lo += n.shard {
		w.backward(g, lo, min(lo+n.shard, n.rows))
		w.addShard(g, lo/n.shard)
	}
}

// balance finds out whether the groups are of about equal work; size is that of a row in each tower.
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

// runBackward computes the gradients of the current batch, in parts of a shard and a group. The parts are begun
// in order, so that one that waits for its turn waits for parts in work.
func (n *Network) runBackward() {
	for _, g := range n.groups {
		g.turn.Store(0)
	}
	if n.inLanes() {
		n.team.Lanes(len(n.groups), n.backwardLane)
		return
	}
	shards := (n.rows + n.shard - 1) / n.shard
	n.do(shards*len(n.groups), n.backwardPart)
}

func (n *Network) computeBackward(worker, part int) {
	shard, g := part/len(n.groups), n.groups[part%len(n.groups)]
	lo := shard * n.shard
	w := n.workers[worker]
	w.backward(g, lo, min(lo+n.shard, n.rows))
	w.addShard(g, shard)
}

// addShard adds the gradients of a group's shard to Param.Grad after those of the shards before it.
func (w *worker) addShard(g *group, shard int) {
	g.await(int64(shard))
	if shard > 0 { // the first has written there itself
		for _, i := range g.params {
			w.k.add(w.net.params[i].Grad, w.grads[i])
		}
	}
	g.mu.Lock()
	g.turn.Store(int64(shard) + 1)
	g.mu.Unlock()
	g.turned.Broadcast()
}

// await returns when it is the shard's turn. The others are mostly about to end, so that it looks for a while
// before it sleeps.
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
