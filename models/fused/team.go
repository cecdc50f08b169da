package fused

import (
	"sync"
	"sync/atomic"
)

// A pass is the work of a team on each shard.
type pass int

const (
	forward pass = iota
	backward
)

// A team is the state that the workers of a network share during one pass.
type team struct {
	pass    pass
	next    atomic.Int64 // shard to be taken
	running sync.WaitGroup

	mu     sync.Mutex
	turn   int        // next shard to add its gradients; guarded by mu
	turned *sync.Cond // turn has changed
}

func (t *team) init() { t.turned = sync.NewCond(&t.mu) }

// run lets the workers do a pass over the current batch, and waits for them.
func (n *Network) run(p pass) {
	n.pass, n.turn = p, 0
	n.next.Store(0)
	if n.rows >= n.parallel {
		shards := (n.rows + n.shard - 1) / n.shard
		for _, w := range n.workers[1:min(n.active, shards)] {
			n.running.Add(1)
			go w.start()
		}
	}
	n.workers[0].takeShards()
	n.running.Wait()
}

// takeShards computes shards until none is left. They are taken in order, so that a worker
// that waits for its turn waits for shards that others are computing.
func (w *worker) takeShards() {
	n := w.net
	for {
		shard := int(n.next.Add(1)) - 1
		lo := shard * n.shard
		if lo >= n.rows {
			return
		}
		hi := min(lo+n.shard, n.rows)
		if n.pass == forward {
			w.forward(lo, hi)
			continue
		}
		w.backward(lo, hi)
		w.addShard(shard)
	}
}

// addShard adds the gradients of a shard to Param.Grad after those of the shards before it.
func (w *worker) addShard(shard int) {
	n := w.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.turn != shard {
		n.turned.Wait()
	}
	if shard > 0 { // the first has written there itself
		for i, p := range n.params {
			n.k.add(p.Grad, w.grads[i])
		}
	}
	n.turn++
	n.turned.Broadcast()
}
