package vpa

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// Look records the state of the pods at an instant, about one interval after the last look. replicas
// is the controller's desired count. Look returns an error without pods, or for an instant that is
// not after the last.
func (l *Live) Look(at time.Time, replicas int, shown []LivePod) error {
	if len(shown) == 0 {
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
	t.dynamics.Last = prices.Events{}
	t.in.startOfDay = secondsOfWeek(at) - float64(t.steps)*t.opts.Interval
	if l.looks > 0 {
		t.in.startOfDay -= t.opts.Interval // of the step that now ends
	}
	l.match(shown)
	var most cluster.Resources
	for i := range t.dynamics.Pods {
		used := t.dynamics.Pods[i].Used
		most.MilliCPU, most.MemoryBytes = max(most.MilliCPU, used.MilliCPU), max(most.MemoryBytes, used.MemoryBytes)
	}
	t.metrics.Observe(most)
	first := l.looks == 0
	switch {
	case !first: // a step ends
		t.ledger.Note(&t.dynamics.Last, t.steps)
		t.steps++
	case !l.adopted:
		l.Adopt(pods.Constant(l.config.Requests))
	}
	l.looks++
	t.ask(context.Background(), first)
	return nil
}

// now returns the time since the first look.
func (l *Live) now() time.Duration { return l.at - time.Duration(l.base.UnixNano()) }

// match updates the task's pods: known pods keep their places, and new ones take the places of terminated pods.
func (l *Live) match(shown []LivePod) {
	d := &l.t.dynamics
	known := make([]bool, len(shown))
	var free []int
	for i, id := range l.running.IDs {
		k := slices.IndexFunc(shown, func(p LivePod) bool { return p.ID == id })
		if k < 0 {
			free = append(free, i)
			continue
		}
		known[k] = true
		l.record(&d.Pods[i], &shown[k])
	}
	for k := range shown {
		if known[k] {
			continue
		}
		one := pods.Pod{Index: l.names, Share: 1, Requests: shown[k].Requests, Limits: shown[k].Limits}
		one.Created = l.before - time.Duration(l.base.UnixNano())
		if l.looks == 0 {
			one.Crashes = shown[k].Restarts // of before
		}
		l.names++
		at := len(d.Pods)
		if len(free) > 0 {
			at, free = free[0], free[1:]
			d.Last.Evictions++ // its predecessor has terminated
			d.Last.Restarts++
			d.Pods[at], l.running.IDs[at] = one, shown[k].ID
		} else {
			d.Pods, l.running.IDs = append(d.Pods, one), append(l.running.IDs, shown[k].ID)
		}
		l.record(&d.Pods[at], &shown[k])
	}
	for _, i := range slices.Backward(free) {
		d.Pods, l.running.IDs = slices.Delete(d.Pods, i, i+1), slices.Delete(l.running.IDs, i, i+1)
	}
}

// record updates p from the state of its pod; p.crashes holds the earlier number of restarts.
func (l *Live) record(p *pods.Pod, s *LivePod) {
	last := &l.t.dynamics.Last
	if p.Requests != s.Requests || p.Limits != s.Limits {
		last.Resizes++
	}
	p.Requests, p.Limits = s.Requests, s.Limits
	p.Used, p.Sampled = s.Used, s.Sampled
	p.Scheduled, p.Began = s.Scheduled, s.Running
	p.Ready = math.MaxInt64
	if s.Serving {
		p.Ready = 0
	}
	if !s.Created.IsZero() {
		p.Created = s.Created.Sub(l.base)
	}
	p.OOM = s.OOMKilled && s.Restarts > p.Crashes
	if p.OOM {
		last.OOMs++
	}
	last.Restarts += max(s.Restarts-p.Crashes, 0)
	p.Crashes = s.Restarts
	p.Killed, p.Ran = s.OOMKilled, s.Ran
	switch {
	case !s.ResizeSince.IsZero():
		p.Since = s.ResizeSince.Sub(l.base)
	case p.Resize != s.Resize:
		p.Since = l.now()
	}
	p.Resize = s.Resize
	if p.Resize == pods.ResizeInfeasible {
		p.Infeasible = p.Want.Target
	}
}

// secondsOfWeek returns the seconds since Monday, 0:00 UTC.
func secondsOfWeek(t time.Time) float64 {
	const thursday = 3 * 24 * 3600 // 1970-01-01
	return float64((t.Unix()+thursday)%weekSeconds) + float64(t.Nanosecond())/1e9
}
