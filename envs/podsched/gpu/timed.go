package gpu

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// advanceTime advances the clock until a waiting pod fits some node.
func (t *Task) advanceTime(ctx context.Context, c cluster.Cluster) error {
	for {
		for ; t.pos < len(t.queue); t.pos++ {
			if t.possible(t.class(t.queue[t.pos])) {
				t.current = t.queue[t.pos]
				return c.Apply(ctx, t.ops)
			}
		}
		t.current = -1
		at, ok := t.nextEvent()
		if len(t.queue) == 0 && t.next == len(t.in.Arrivals) {
			return c.Apply(ctx, t.ops) // all pods are placed
		}
		if !ok {
			t.giveUp()
			t.pos = 0 // masked actions have left the others
			continue
		}
		if err := c.Apply(ctx, t.ops); err != nil {
			return err
		}
		t.ops = t.ops[:0]
		if err := t.elapse(ctx, c, at); err != nil {
			return err
		}
	}
}

// giveUp gives up the waiting pods that fit no node, when no event follows: a pod of a recording may run for ever.
func (t *Task) giveUp() {
	t.queue = slices.DeleteFunc(t.queue, func(pod int32) bool {
		if t.possible(t.class(pod)) {
			return false
		}
		t.fail(pod)
		return true
	})
}

// nextEvent returns the time of the next arrival or departure.
func (t *Task) nextEvent() (at time.Duration, ok bool) {
	if t.next < len(t.in.Arrivals) {
		at, ok = t.in.Arrivals[t.next].At, true
	}
	if len(t.running) > 0 && (!ok || t.running[0].At < at) {
		at, ok = t.running[0].At, true
	}
	return at, ok
}

// elapse advances the clock to at, when pods depart and then arrive.
func (t *Task) elapse(ctx context.Context, c cluster.Cluster, at time.Duration) error {
	d := at - c.State().Now
	t.waiting += float64(len(t.queue)) * d.Seconds()
	t.busy += float64(t.inventory.Used.MilliGPU) / float64(t.inventory.Size.MilliGPU) * d.Seconds()
	if err := c.Advance(ctx, d); err != nil {
		return err
	}
	s := c.State()
	t.now = s.Now
	for len(t.running) > 0 && t.running[0].At <= at {
		e := t.running.Pop()
		if p := s.Pods[e.Pod].Phase; p != cluster.Succeeded {
			return fmt.Errorf("pod %s is %v at %v, want Succeeded", s.PodName(e.Pod), p, at)
		}
		t.inventory.Remove(t.class(e.Pod), e.Node, e.Devices)
		t.freed++
	}
	for t.next < len(t.in.Arrivals) && t.in.Arrivals[t.next].At <= at {
		if pod := t.arrive(s); t.inventory.CouldFitSome(t.class(pod)) {
			t.queue = append(t.queue, pod)
			t.note()
		} else {
			t.fail(pod)
		}
	}
	t.pos = 0
	return nil
}
