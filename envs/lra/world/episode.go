package world

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// NoApp is the application if there is no container to place.
const NoApp = lra.NumApps

// An Episode places containers on nodes, one after the other: those of a batch or, with online arrivals, those that
// come and go.
type Episode struct {
	src *Source
	own *pcg.Source // of the episode
	rng *rand.Rand  // draws from own

	x      planner.Placement
	forbid []uint8    // of each node: bit i forbids the application of limit i
	budget int        // containers that may violate restrictions
	queue  []uint8    // applications in the order of arrival
	next   int        // index in queue of the container to place, and of its pod
	left   lra.Counts // remaining containers of the batch after that one

	Tally
	decided int // choices of a node so far

	rows []float32 // features of the current nodes
	mask []bool    // which nodes permit the container to place
	open int       // number of nodes that do

	running *cluster.Departures // nil with a batch
	times   averages

	meta []int32 // of the nodes, then of the applications
	perm []int   // scratch: nodes
	ops  []cluster.Op
}

// NewEpisode returns an Episode that [Episode.Begin] starts.
func NewEpisode(src *Source) *Episode {
	n := src.Options.Nodes
	e := &Episode{
		src: src, own: pcg.New(0), x: make(planner.Placement, n), forbid: make([]uint8, n), perm: make([]int, n),
		rows: make([]float32, n*NodeFeatures), mask: make([]bool, n),
	}
	e.rng = rand.New(e.own)
	if src.Options.Arrivals == ArrivalsOnline {
		e.running = &cluster.Departures{}
	}
	return e
}

// Placement returns the state of each node, which the caller must not change.
func (e *Episode) Placement() planner.Placement { return e.x }

// Queue returns the applications of the containers in the order of arrival. The caller must not
// change them.
func (e *Episode) Queue() []uint8 { return e.queue }

// Decided returns the number of containers that a choice has placed or rejected.
func (e *Episode) Decided() int { return e.decided }

// Online reports whether containers come and go.
func (e *Episode) Online() bool { return e.running != nil }

// Begin draws and starts an episode.
func (e *Episode) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	e.src.Reseed(e.own, rng)
	e.restart()
	e.drawLimits()
	if e.Online() {
		return e.beginOnline(ctx, c)
	}
	e.queue = e.src.DrawBatch(e.rng, e.queue)
	if err := e.addNodes(ctx, c); err != nil {
		return err
	}
	for i, a := range e.queue {
		e.ops = append(e.ops, e.addPod(i, int(a), 0))
	}
	if err := c.Apply(ctx, e.ops); err != nil {
		return err
	}
	e.first(ctx)
	return ctx.Err()
}

// Load starts an episode without a cluster, of containers of the applications in order.
func (e *Episode) Load(order []int) {
	e.restart()
	for _, a := range order {
		e.queue = append(e.queue, uint8(a))
	}
	e.first(context.Background())
}

// restart empties the nodes and the queue.
func (e *Episode) restart() {
	clear(e.x)
	e.queue, e.next, e.left, e.decided = e.queue[:0], 0, lra.Counts{}, 0
	e.Tally, e.budget = Tally{Vacant: len(e.x)}, e.src.violations(e.src.Options.Containers)
	for i, k := range e.src.Class {
		copy(e.rows[i*NodeFeatures:], e.src.Kinds[k].Row(NoApp, 0))
		e.dues += e.src.Kinds[k].dues[0]
	}
}

// first advances to the first container of a batch that some node permits.
func (e *Episode) first(ctx context.Context) {
	for _, a := range e.queue {
		e.left[a]++
	}
	e.next, e.budget = -1, e.src.violations(len(e.queue))
	e.advance(ctx)
}

// drawLimits draws for each restricted application the nodes that exclude it.
func (e *Episode) drawLimits() {
	clear(e.forbid)
	for i, l := range e.src.limits {
		for k := range e.perm {
			e.perm[k] = k
		}
		for k := range len(e.perm) - l.nodes {
			j := k + e.rng.IntN(len(e.perm)-k)
			e.perm[k], e.perm[j] = e.perm[j], e.perm[k]
			e.forbid[e.perm[k]] |= 1 << i
		}
	}
}

// App returns the application of the container to place, or [NoApp].
func (e *Episode) App() int {
	if e.next < 0 || e.next >= len(e.queue) {
		return NoApp
	}
	return int(e.queue[e.next])
}

// advance advances to the next container of the batch that some node permits, or stops earlier when ctx ends.
func (e *Episode) advance(ctx context.Context) {
	for first := true; ; first = false {
		if !first {
			e.Rejected++
		}
		before := e.App()
		if e.next++; e.next < len(e.queue) {
			e.left[e.queue[e.next]]--
		}
		if !first || e.App() != before || e.budget > 0 {
			e.refresh()
		}
		if e.open > 0 || e.next == len(e.queue) || ctx.Err() != nil {
			return
		}
	}
}

// Place puts the next container on node and advances to the next one that some node permits. A container on a node that
// does not permit it stays pending for ever. Place returns the reward that the step earned, see [Reward], and whether
// the episode has ended.
func (e *Episode) Place(ctx context.Context, c cluster.Cluster, node int) (earned float64, end bool, err error) {
	if e.Online() {
		return e.placeOnline(ctx, c, node)
	}
	before := e.Value
	if err := e.bind(ctx, c, node); err != nil {
		return 0, false, err
	}
	e.advance(ctx)
	return (e.Value - before) / float64(len(e.queue)), e.next == len(e.queue), ctx.Err()
}

// bind binds the container to node if that permits it.
func (e *Episode) bind(ctx context.Context, c cluster.Cluster, node int) error {
	app := e.App()
	e.decided++
	if !e.Permits(node, app) {
		e.Rejected++
		return nil
	}
	if !e.meant(node, app) {
		e.Violations++
	}
	e.ops = append(e.ops[:0], cluster.Op{Kind: cluster.Bind, Pod: int32(e.next), Node: int32(node)})
	if err := c.Apply(ctx, e.ops); err != nil {
		return err
	}
	e.Placed++
	e.set(node, e.kind(node).Plan.Next[e.x[node]][app])
	return nil
}

// Put is Place for an episode without a cluster, on a node that permits the container.
func (e *Episode) Put(node int) {
	e.set(node, e.kind(node).Plan.Next[e.x[node]][e.App()])
	e.advance(context.Background())
}

// Fill puts the containers of state s on an empty node, regardless of the queue. The caller binds their pods, and calls
// [Episode.Finish] after the last.
func (e *Episode) Fill(node int, s lra.State) {
	e.Placed += s.Total()
	e.decided += s.Total()
	e.Move(e.kind(node), 0, s)
	e.x[node] = s
}

// Finish leaves no container to place.
func (e *Episode) Finish() { e.next = len(e.queue) }
