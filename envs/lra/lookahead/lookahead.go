// Package lookahead values nodes for a container: it plays futures in which containers come and go, and the index chooses
// their nodes.
package lookahead

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
)

// Lookahead plays futures of clusters of equal nodes. Containers of equally likely applications arrive and live for
// exponential times. Time is in mean lifetimes. One goroutine uses it at a time.
type Lookahead struct {
	index    *prices.Index
	model    *planner.Model
	arrivals float64 // rate
	slots    int     // of the cluster

	placed []uint8 // applications of the running containers, the new one last
	where  []int32 // nodes of all but the new one
	apps   []uint8 // scratch of draw
	events []event
	rest   float64 // time from the last event to the horizon
	seen   []lra.State
	ranked []int32
	values []float64 // scratch of Best
	now    cluster   // before the container is placed
	copy   cluster
}

// event is the arrival of a container, or the departure of running container number gone, which the last one then
// replaces.
type event struct {
	passed float64 // mean time since the last event
	app    uint8
	gone   int32 // −1: an arrival
}

// New returns the futures of nodes of m, placed by the index, with arrivals at the rate, on a number of slots.
func New(m *planner.Model, index *prices.Index, arrivals float64, slots int) *Lookahead {
	return &Lookahead{index: index, model: m, arrivals: arrivals, slots: slots}
}

// Nodes returns the best nodes by their index for a container of app, and a number of others, drawn from the rest. No
// two are in the same state. The result is valid until the next call.
func (l *Lookahead) Nodes(x planner.Placement, app, best, others int, rng *rand.Rand) []int32 {
	l.seen, l.ranked = l.seen[:0], l.ranked[:0]
	for i, s := range x {
		if l.model.Next[s][app] != lra.NoState && !slices.Contains(l.seen, s) {
			l.seen, l.ranked = append(l.seen, s), append(l.ranked, int32(i))
		}
	}
	gain := func(i int32) float64 { return l.index.Worth[x[i].Add(app)] - l.index.Worth[x[i]] }
	slices.SortStableFunc(l.ranked, func(i, k int32) int { return cmp.Compare(gain(k), gain(i)) })
	for k := best; k < min(best+others, len(l.ranked)); k++ {
		j := k + rng.IntN(len(l.ranked)-k)
		l.ranked[k], l.ranked[j] = l.ranked[j], l.ranked[k]
	}
	return l.ranked[:min(best+others, len(l.ranked))]
}

// Rollout holds the parameters of [Lookahead.Best].
type Rollout struct {
	Nodes   int     `opt:"nodes" doc:"nodes tried: those with the largest index" valid:"1,100000" range:"2,12"`
	Futures int     `opt:"futures" doc:"futures played for each" valid:"1,100000" range:"1,128,log"`
	Horizon float64 `opt:"horizon" doc:"length of futures in mean lifetimes" valid:"1e-6,1000" range:"0.005,0.5,log"`
}

// Best returns the node with the highest mean value over futures.
func (l *Lookahead) Best(ctx context.Context, x planner.Placement, app int, r Rollout, rng *rand.Rand) int {
	nodes := l.Nodes(x, app, r.Nodes, 0, rng)
	l.values = l.Play(ctx, l.values[:0], x, app, nodes, r.Futures, r.Horizon, rng)
	return int(nodes[best(l.values)])
}

// Play appends to dst the values of the nodes for a container of app: the throughput over the horizon plus the worth of
// all nodes at its end, as means over futures that are equal for all of them. It stops early when ctx ends; what it returns
// then means nothing.
func (l *Lookahead) Play(ctx context.Context, dst []float64, x planner.Placement, app int, nodes []int32, futures int, horizon float64, rng *rand.Rand) []float64 {
	first := len(dst)
	for range nodes {
		dst = append(dst, 0)
	}
	l.now.start(l, x)
	l.placed, l.where = l.placed[:0], l.where[:0]
	for i, s := range x {
		for a, k := range s.Counts() {
			for range k {
				l.placed, l.where = append(l.placed, uint8(a)), append(l.where, int32(i))
			}
		}
	}
	l.placed = append(l.placed, uint8(app))
	for range futures {
		l.draw(horizon, rng)
		for k, node := range nodes {
			if ctx.Err() != nil {
				return dst
			}
			l.copy.become(&l.now)
			l.copy.where = append(append(l.copy.where[:0], l.where...), node)
			l.copy.set(l, node, l.model.Next[x[node]][app])
			dst[first+k] += l.copy.run(l) / float64(futures)
		}
	}
	return dst
}

// draw draws the events of a future.
func (l *Lookahead) draw(horizon float64, rng *rand.Rand) {
	l.events, l.apps = l.events[:0], append(l.apps[:0], l.placed...)
	for now := 0.0; ; {
		rate := l.arrivals + float64(len(l.apps))
		passed := 1 / rate
		if now+passed > horizon {
			l.rest = horizon - now
			return
		}
		now += passed
		if rng.Float64()*rate >= l.arrivals {
			gone, last := rng.IntN(len(l.apps)), len(l.apps)-1
			l.events = append(l.events, event{passed, l.apps[gone], int32(gone)})
			l.apps[gone] = l.apps[last]
			l.apps = l.apps[:last]
			continue
		}
		app := uint8(rng.IntN(lra.NumApps))
		if len(l.apps) == l.slots { // no node has room
			l.events = append(l.events, event{passed, lra.NumApps, -1})
			continue
		}
		l.events = append(l.events, event{passed, app, -1})
		l.apps = append(l.apps, app)
	}
}

// cluster is a copy of the nodes in which a future is played.
type cluster struct {
	x     []lra.State
	gains [lra.NumApps][]float64 // in worth, of each node; −∞ without room
	where []int32
	value float64
}

// start begins with nodes in states x.
func (c *cluster) start(l *Lookahead, x planner.Placement) {
	c.x, c.value = append(c.x[:0], x...), 0
	for a := range c.gains {
		c.gains[a] = slices.Grow(c.gains[a][:0], len(x))[:len(x)]
	}
	for i := range c.x {
		c.value += l.model.Value[c.x[i]]
		c.see(l, int32(i))
	}
}

// become copies the nodes of another cluster.
func (c *cluster) become(of *cluster) {
	c.x, c.value = append(c.x[:0], of.x...), of.value
	for a := range c.gains {
		c.gains[a] = append(c.gains[a][:0], of.gains[a]...)
	}
}

// set changes the state of a node.
func (c *cluster) set(l *Lookahead, node int32, to lra.State) {
	c.value += l.model.Value[to] - l.model.Value[c.x[node]]
	c.x[node] = to
	c.see(l, node)
}

// see updates the gains of a node.
func (c *cluster) see(l *Lookahead, node int32) {
	s := c.x[node]
	for a, next := range l.model.Next[s] {
		gain := math.Inf(-1)
		if next != lra.NoState {
			gain = l.index.Worth[next] - l.index.Worth[s]
		}
		c.gains[a][node] = gain
	}
}

// run plays the events.
func (c *cluster) run(l *Lookahead) (earned float64) {
	for _, e := range l.events {
		earned += c.value * e.passed
		switch {
		case e.gone >= 0:
			node, last := c.where[e.gone], len(c.where)-1
			c.where[e.gone] = c.where[last]
			c.where = c.where[:last]
			c.set(l, node, c.x[node].Remove(int(e.app)))
		case e.app < lra.NumApps:
			node := best(c.gains[e.app])
			c.where = append(c.where, node)
			c.set(l, node, l.model.Next[c.x[node]][e.app])
		}
	}
	earned += c.value * l.rest
	for _, s := range c.x {
		earned += l.index.Worth[s]
	}
	return earned
}

// best returns the first index of the largest value.
func best(values []float64) int32 {
	best, most := 0, values[0]
	for i, v := range values {
		if v > most {
			best, most = i, v
		}
	}
	return int32(best)
}
