package vpa

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// Look records the state of the pods at an instant, about one interval after the last look. replicas
// is the controller's desired count. Look returns an error without pods, or for an instant that is
// not after the last.
func (l *Live) Look(at time.Time, replicas int, pods []LivePod) error {
	if len(pods) == 0 {
		return errors.New("vpa: no pods to look at")
	}
	instant := time.Duration(at.UnixNano())
	if l.looks > 0 && instant <= l.at {
		return fmt.Errorf("vpa: a look at %v, want one after %v", at, time.Unix(0, int64(l.at)).UTC())
	}
	t := l.t
	if l.looks == 0 {
		l.base = at
	}
	l.before, l.at, l.replicas = l.at, instant, replicas
	if l.looks == 0 {
		l.before = instant
	}
	t.dynamics.last = prices.Events{}
	t.in.startOfDay = secondsOfWeek(at) - float64(t.steps)*t.opts.Interval
	if l.looks > 0 {
		t.in.startOfDay -= t.opts.Interval // of the step that now ends
	}
	l.match(pods)
	var most cluster.Resources
	for i := range t.dynamics.pods {
		used := t.dynamics.pods[i].used
		most.MilliCPU, most.MemoryBytes = max(most.MilliCPU, used.MilliCPU), max(most.MemoryBytes, used.MemoryBytes)
	}
	t.metrics.Observe(most)
	first := l.looks == 0
	switch {
	case !first: // a step ends
		t.ledger.Note(&t.dynamics.last, t.steps)
		t.steps++
	case !l.adopted:
		l.Adopt(constant(l.config.Requests))
	}
	l.looks++
	t.askUpstream(context.Background(), first)
	return nil
}

// now returns the time since the first look.
func (l *Live) now() time.Duration { return l.at - time.Duration(l.base.UnixNano()) }

// match updates the task's pods: known ones keep their places, and new ones take the places of pods
// that have gone.
func (l *Live) match(pods []LivePod) {
	d := &l.t.dynamics
	known := make([]bool, len(pods))
	var free []int
	for i, id := range l.ids {
		k := slices.IndexFunc(pods, func(p LivePod) bool { return p.ID == id })
		if k < 0 {
			free = append(free, i)
			continue
		}
		known[k] = true
		l.record(&d.pods[i], &pods[k])
	}
	for k := range pods {
		if known[k] {
			continue
		}
		one := pod{index: l.names, share: 1, requests: pods[k].Requests, limits: pods[k].Limits}
		one.created = l.before - time.Duration(l.base.UnixNano())
		if l.looks == 0 {
			one.crashes = pods[k].Restarts // of before
		}
		l.names++
		at := len(d.pods)
		if len(free) > 0 {
			at, free = free[0], free[1:]
			d.last.Evictions++ // the pod before it is gone
			d.last.Restarts++
			d.pods[at], l.ids[at] = one, pods[k].ID
		} else {
			d.pods, l.ids = append(d.pods, one), append(l.ids, pods[k].ID)
		}
		l.record(&d.pods[at], &pods[k])
	}
	for _, i := range slices.Backward(free) {
		d.pods, l.ids = slices.Delete(d.pods, i, i+1), slices.Delete(l.ids, i, i+1)
	}
}

// record updates p by the state of its pod; p.crashes holds the restarts seen before.
func (l *Live) record(p *pod, s *LivePod) {
	last := &l.t.dynamics.last
	if p.requests != s.Requests || p.limits != s.Limits {
		last.Resizes++
	}
	p.requests, p.limits = s.Requests, s.Limits
	p.used, p.sampled = s.Used, s.Sampled
	p.scheduled, p.began = s.Scheduled, s.Running
	p.ready = math.MaxInt64
	if s.Serving {
		p.ready = 0
	}
	if !s.Created.IsZero() {
		p.created = s.Created.Sub(l.base)
	}
	p.oom = s.OOMKilled && s.Restarts > p.crashes
	if p.oom {
		last.OOMs++
	}
	last.Restarts += max(s.Restarts-p.crashes, 0)
	p.crashes = s.Restarts
	p.killed, p.ran = s.OOMKilled, s.Ran
	switch {
	case !s.ResizeSince.IsZero():
		p.since = s.ResizeSince.Sub(l.base)
	case p.resize != resizeState(s.Resize):
		p.since = l.now()
	}
	p.resize = resizeState(s.Resize)
	if p.resize == resizeInfeasible {
		p.infeasible = p.want.Target
	}
}

// secondsOfWeek returns the seconds since Monday, 0:00 UTC.
func secondsOfWeek(t time.Time) float64 {
	const thursday = 3 * 24 * 3600 // 1970-01-01
	return float64((t.Unix()+thursday)%weekSeconds) + float64(t.Nanosecond())/1e9
}
