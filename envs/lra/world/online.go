package world

import (
	"context"
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// interarrival is the mean time between arrivals. It only sets the scale of the clock.
const interarrival = time.Second

// averages are sums over the time of an episode with online arrivals.
type averages struct {
	now       time.Duration
	life      float64 // mean lifetime in seconds
	value     float64 // objective × seconds
	work      float64 // throughput × seconds
	dues      float64 // dues × seconds
	residence float64 // containers × seconds
}

// of returns throughput and objective of a container, over time.
func (a *averages) of(src *Source) (throughput, objective float64) {
	if a.residence == 0 {
		return 0, 0
	}
	throughput, objective = a.work/a.residence, a.value/a.residence
	if src.Options.Objective == planner.ObjectiveVacant {
		objective += src.Options.Beta
	}
	return throughput, objective
}

// beginOnline starts with the mean number of containers on random nodes that are meant for them, and waits for the
// first arrival.
func (e *Episode) beginOnline(ctx context.Context, c cluster.Cluster) error {
	*e.running = (*e.running)[:0]
	e.times = averages{life: e.src.Scale * interarrival.Seconds()}
	e.next = -1 // no container to place yet
	if err := e.addNodes(ctx, c); err != nil {
		return err
	}
	for range int(e.src.Scale) {
		if err := ctx.Err(); err != nil {
			return err
		}
		app := e.rng.IntN(lra.NumApps)
		node := e.anyNode(app)
		if node < 0 {
			continue
		}
		life := e.exponential(e.times.life)
		e.ops = append(e.ops, e.addPod(len(e.queue), app, life),
			cluster.Op{Kind: cluster.Bind, Pod: int32(len(e.queue)), Node: int32(node)})
		e.running.Push(cluster.Departure{At: life, Pod: int32(len(e.queue)), Node: int32(node)})
		e.queue = append(e.queue, uint8(app))
		e.set(node, e.kind(node).Plan.Next[e.x[node]][app])
	}
	if err := c.Apply(ctx, e.ops); err != nil {
		return err
	}
	e.next = len(e.queue)
	return e.arrive(ctx, c)
}

// anyNode draws among the nodes that are meant for app and have room; -1 if there is none.
func (e *Episode) anyNode(app int) int {
	n := len(e.x)
	for range 4 * n { // finds one unless only few have room
		if i := e.rng.IntN(n); e.meant(i, app) && e.Permits(i, app) {
			return i
		}
	}
	first := e.rng.IntN(n)
	for k := range n {
		if i := (first + k) % n; e.meant(i, app) && e.Permits(i, app) {
			return i
		}
	}
	return -1
}

// exponential draws a duration with the given mean in seconds, at least a nanosecond.
func (e *Episode) exponential(mean float64) time.Duration {
	return time.Duration(min(1+e.rng.ExpFloat64()*mean*float64(time.Second), math.MaxInt64/4))
}

// arrive advances the clock until a container arrives that some node permits.
func (e *Episode) arrive(ctx context.Context, c cluster.Cluster) error {
	for {
		until := e.times.now + e.exponential(interarrival.Seconds())
		before := e.times.now
		for len(*e.running) > 0 && (*e.running)[0].At <= until {
			d := e.running.Pop()
			e.pass(d.At)
			e.set(int(d.Node), e.x[d.Node].Remove(int(e.queue[d.Pod])))
		}
		e.pass(until)
		if err := c.Advance(ctx, until-before); err != nil {
			return err
		}
		app := e.rng.IntN(lra.NumApps)
		e.queue = append(e.queue, uint8(app))
		e.ops = append(e.ops[:0], e.addPod(e.next, app, e.exponential(e.times.life)))
		if err := c.Apply(ctx, e.ops); err != nil {
			return err
		}
		e.refresh()
		if e.open > 0 {
			return nil
		}
		e.Rejected++
		e.next++
	}
}

// pass moves the task's clock.
func (e *Episode) pass(to time.Duration) {
	dt := (to - e.times.now).Seconds()
	e.times.value += e.Value * dt
	e.times.work += e.Throughput * dt
	e.times.dues += e.dues * dt
	e.times.residence += float64(e.Used) * dt
	e.times.now = to
}

// placeOnline is Place with online arrivals. It earns the objective over the time until the next arrival, divided by
// the mean number of containers, the mean time between arrivals, and the placements of an episode.
func (e *Episode) placeOnline(ctx context.Context, c cluster.Cluster, node int) (earned float64, end bool, err error) {
	if err := e.bind(ctx, c, node); err != nil {
		return 0, false, err
	}
	if p := &c.State().Pods[e.next]; p.Phase == cluster.Running {
		e.running.Push(cluster.Departure{At: p.Started + p.Duration, Pod: int32(e.next), Node: int32(node)})
	}
	e.next++
	before := e.times.value - e.times.dues
	if err := e.arrive(ctx, c); err != nil {
		return 0, false, err
	}
	earned = e.times.value - e.times.dues - before
	seconds := interarrival.Seconds() * float64(e.src.Options.Containers)
	return earned / e.src.Scale / seconds, e.decided >= e.src.Options.Containers, nil
}
