package gpushare

import (
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// A Course is a future of timed dynamics. Times count from the decision. Each pod fits some node of the empty cluster.
type Course struct {
	Duration time.Duration // of the pod to place
	Pods     []CoursePod   // that arrive, in ascending order
	Waiting  []CoursePod   // in the order of the queue, without the pod to place; At is not read
	Offered  int           // of Waiting, the first that have been offered since the last departure and fit nowhere
	Running  []CourseRun
	Until    time.Duration // end of the course
}

// CoursePod is a pod that arrives.
type CoursePod struct {
	Class        int32
	At, Duration time.Duration
}

// CourseRun is a pod that runs.
type CourseRun struct {
	Class   int32
	Node    int32
	Devices uint64
	End     time.Duration
}

// course is the state of a timed rollout.
type course struct {
	now     time.Duration
	waited  time.Duration // pod seconds, in sum
	queue   []CoursePod
	classes []int32 // pods of the queue by class
	running cluster.Departures
	of      []int32 // classes of running pods, by Departure.Pod
	touched []int32 // nodes that pods have left, in ascending order
	pass    uint32
	failed  []uint32 // by class: the pass in which it was found to fit nowhere
}

// playTimed places a pod of class c on a node and lets WeightedFGD play the course. It returns how long pods wait until
// its end, in sum.
func (l *Lookahead) playTimed(c *Class, node int32, f *Course) time.Duration {
	l.nodes = append(l.nodes[:0], l.start...)
	l.cluster.Used, l.cluster.Size = l.b.Used, l.b.Size
	l.cluster.FreeOf = append(l.cluster.FreeOf[:0], l.b.FreeOf...)
	t := &l.timed
	if len(t.classes) != len(l.cat.Classes) {
		t.classes, t.failed = make([]int32, len(l.cat.Classes)), make([]uint32, len(l.cat.Classes))
	}
	clear(t.classes)
	t.now, t.waited = 0, 0
	t.running, t.of = t.running[:0], t.of[:0]
	for _, r := range f.Running {
		t.running.Push(cluster.Departure{At: r.End, Pod: int32(len(t.of)), Node: r.Node, Devices: r.Devices})
		t.of = append(t.of, r.Class)
	}
	l.begins(c, node, f.Duration)
	t.queue = append(t.queue[:0], f.Waiting[:f.Offered]...)
	for _, p := range t.queue {
		t.classes[p.Class]++
	}
	for _, p := range f.Waiting[f.Offered:] {
		l.offer(p)
	}
	for _, p := range f.Pods {
		if p.At >= f.Until {
			break
		}
		l.depart(p.At)
		t.elapse(p.At)
		l.offer(p)
	}
	l.depart(f.Until)
	t.elapse(f.Until)
	return t.waited
}

// elapse advances the clock.
func (t *course) elapse(at time.Duration) {
	t.waited += time.Duration(len(t.queue)) * (at - t.now)
	t.now = at
}

// begins lets a pod begin to run on a node, which it fits.
func (l *Lookahead) begins(c *Class, node int32, duration time.Duration) {
	t := &l.timed
	devices := l.cell(l.nodes[node].state, c).devices
	l.place(c, node)
	if duration > 0 {
		t.running.Push(cluster.Departure{At: t.now + duration, Pod: int32(len(t.of)), Node: node, Devices: uint64(devices)})
		t.of = append(t.of, c.ID)
	}
}

// offer places a pod, or lets it wait.
func (l *Lookahead) offer(p CoursePod) {
	t := &l.timed
	if t.classes[p.Class] == 0 { // others of its class have been offered since the last departure
		c := &l.cat.Classes[p.Class]
		if node := l.choose(c); node >= 0 {
			l.begins(c, node, p.Duration)
			return
		}
	}
	t.queue = append(t.queue, p)
	t.classes[p.Class]++
}

// depart lets pods end until a time, and places waiting ones where they leave.
func (l *Lookahead) depart(until time.Duration) {
	t := &l.timed
	for len(t.running) > 0 && t.running[0].At <= until {
		at := t.running[0].At
		t.elapse(at)
		t.touched = t.touched[:0]
		for len(t.running) > 0 && t.running[0].At == at {
			e := t.running.Pop()
			l.remove(&l.cat.Classes[t.of[e.Pod]], e.Node, uint8(e.Devices))
			if i, ok := slices.BinarySearch(t.touched, e.Node); !ok {
				t.touched = slices.Insert(t.touched, i, e.Node)
			}
		}
		if len(t.queue) > 0 {
			l.retry()
		}
	}
}

// retry offers the waiting pods the nodes that others have left: elsewhere they do not fit.
func (l *Lookahead) retry() {
	t := &l.timed
	t.pass++
	left := t.queue[:0]
	for _, p := range t.queue {
		if t.failed[p.Class] != t.pass {
			c := &l.cat.Classes[p.Class]
			if node := l.chooseOf(c, t.touched); node >= 0 {
				l.begins(c, node, p.Duration)
				t.classes[p.Class]--
				continue
			}
			t.failed[p.Class] = t.pass
		}
		left = append(left, p)
	}
	t.queue = left
}

// remove takes a pod of class c from a node.
func (l *Lookahead) remove(c *Class, node int32, devices uint8) {
	n := &l.nodes[node]
	s := l.states[n.state]
	s.cpu += int32(c.MilliCPU)
	for d := range s.free {
		if devices>>d&1 != 0 {
			s.free[d] += int16(c.MilliGPU)
		}
	}
	n.state = l.intern(s)
	n.memory += c.MemoryMiB
	n.room++
	l.cluster.Used.MilliGPU -= c.TotalMilliGPU()
	if c.GPUs > 0 {
		l.cluster.FreeOf[s.model] += c.TotalMilliGPU()
	}
}
