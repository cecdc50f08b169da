package world

import (
	"context"
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
)

// interarrival is the mean time between arrivals. It only sets the scale of the clock.
const interarrival = time.Second

// online is the time of a task with online arrivals.
type online struct {
	now       time.Duration
	life      float64 // mean lifetime in seconds
	value     float64 // objective × seconds
	work      float64 // throughput × seconds
	dues      float64 // dues × seconds
	residence float64 // containers × seconds
}

// averages returns throughput and objective of a container, over time.
func (o *online) averages(t *Task) (throughput, objective float64) {
	if o.residence == 0 {
		return 0, 0
	}
	throughput, objective = o.work/o.residence, o.value/o.residence
	if t.src.opts.Objective == lra.ObjectiveVacant {
		objective += t.src.opts.Beta
	}
	return throughput, objective
}

// departure is the end of a running pod.
type departure struct {
	at   time.Duration
	pod  int32
	node int32
}

func (d departure) before(e departure) bool { return d.at < e.at || d.at == e.at && d.pod < e.pod }

// departures is a heap with the first departure at index 0.
type departures []departure

func (h *departures) push(d departure) {
	a := append(*h, d)
	*h = a
	for i := len(a) - 1; i > 0; {
		parent := (i - 1) / 2
		if !a[i].before(a[parent]) {
			break
		}
		a[i], a[parent] = a[parent], a[i]
		i = parent
	}
}

func (h *departures) pop() departure {
	a := *h
	first, last := a[0], len(a)-1
	a[0] = a[last]
	a = a[:last]
	*h = a
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first
		}
		if child+1 < last && a[child+1].before(a[child]) {
			child++
		}
		if !a[child].before(a[i]) {
			return first
		}
		a[i], a[child] = a[child], a[i]
		i = child
	}
}

// beginOnline starts with as many containers as there are on average, at random on the nodes
// that are meant for them, and waits for the first arrival.
func (t *Task) beginOnline(ctx context.Context, c cluster.Cluster) error {
	*t.heap = (*t.heap)[:0]
	t.times = online{life: t.src.scale * interarrival.Seconds()}
	t.next = -1 // there is nothing to place yet
	t.ops = t.addNodes(c, t.ops[:0])
	for range int(t.src.scale) {
		app := t.rng.IntN(lra.NumApps)
		node := t.anyNode(app)
		if node < 0 {
			continue
		}
		life := t.exponential(t.times.life)
		t.ops = append(t.ops, t.addPod(len(t.queue), app, life),
			cluster.Op{Kind: cluster.Bind, Pod: int32(len(t.queue)), Node: int32(node)})
		t.heap.push(departure{life, int32(len(t.queue)), int32(node)})
		t.queue = append(t.queue, uint8(app))
		t.set(node, t.src.kinds[t.src.class[node]].plan.Next[t.x[node]][app])
	}
	if err := c.Apply(ctx, t.ops); err != nil {
		return err
	}
	t.next = len(t.queue)
	return t.arrive(ctx, c)
}

// anyNode draws among the nodes that are meant for app and have room, or returns -1.
func (t *Task) anyNode(app int) int {
	n := len(t.x)
	for range 4 * n { // finds one unless few are left
		if i := t.rng.IntN(n); t.meant(i, app) && t.permits(i, app) {
			return i
		}
	}
	first := t.rng.IntN(n)
	for k := range n {
		if i := (first + k) % n; t.meant(i, app) && t.permits(i, app) {
			return i
		}
	}
	return -1
}

// exponential draws a duration of the given mean in seconds, of at least a nanosecond.
func (t *Task) exponential(mean float64) time.Duration {
	return time.Duration(min(1+t.rng.ExpFloat64()*mean*float64(time.Second), math.MaxInt64/4))
}

// arrive lets time pass until a container arrives that some node permits.
func (t *Task) arrive(ctx context.Context, c cluster.Cluster) error {
	for {
		until := t.times.now + t.exponential(interarrival.Seconds())
		before := t.times.now
		for len(*t.heap) > 0 && (*t.heap)[0].at <= until {
			d := t.heap.pop()
			t.pass(d.at)
			t.set(int(d.node), t.x[d.node].Remove(int(t.queue[d.pod])))
		}
		t.pass(until)
		if err := c.Advance(ctx, until-before); err != nil {
			return err
		}
		app := t.rng.IntN(lra.NumApps)
		t.queue = append(t.queue, uint8(app))
		t.ops = append(t.ops[:0], t.addPod(t.next, app, t.exponential(t.times.life)))
		if err := c.Apply(ctx, t.ops); err != nil {
			return err
		}
		t.refresh()
		if t.open > 0 {
			return nil
		}
		t.rejected++
		t.next++
	}
}

// pass moves the task's clock.
func (t *Task) pass(to time.Duration) {
	dt := (to - t.times.now).Seconds()
	t.times.value += t.value * dt
	t.times.work += t.throughput * dt
	t.times.dues += t.dues * dt
	t.times.residence += float64(t.used) * dt
	t.times.now = to
}

// applyOnline places the container on node and waits for the next. The reward is the objective
// over that time, by the number of containers there are on average and the mean time between
// arrivals, times the placements of an episode.
func (t *Task) applyOnline(ctx context.Context, c cluster.Cluster, node int) (envs.Outcome, error) {
	if err := t.place(ctx, c, node); err != nil {
		return envs.Outcome{}, err
	}
	if p := &c.State().Pods[t.next]; p.Phase == cluster.Running {
		t.heap.push(departure{p.Started + p.Duration, int32(t.next), int32(node)})
	}
	t.next++
	before := t.times.value - t.times.dues
	if err := t.arrive(ctx, c); err != nil {
		return envs.Outcome{}, err
	}
	earned := t.times.value - t.times.dues - before
	seconds := interarrival.Seconds() * float64(t.src.opts.Containers)
	end := t.decided >= t.src.opts.Containers
	return envs.Outcome{Reward: t.pay(earned/t.src.scale/seconds, end)}, nil
}
