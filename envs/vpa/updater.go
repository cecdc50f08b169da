package vpa

import (
	"context"
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Constants of the upstream updater.
const (
	updateThreshold  = 0.1            // relative difference from which an old pod is updated
	inRangeAge       = 12 * time.Hour // of an old pod
	deferredPatience = 5 * time.Minute
	progressPatience = time.Hour
)

// candidate is a pod that the updater would change.
type candidate struct {
	pod     int
	scaleUp bool
	diff    float64
}

// update is one loop of the updater: it accepts pods, orders them, and evicts or resizes as
// mode and budget permit.
func (t *Task) update(ctx context.Context, c cluster.Cluster) error {
	if err := t.retryResizes(ctx, c); err != nil {
		return err
	}
	switch t.opts.Mode {
	case ModeOff, ModeInitial:
		return nil
	}
	if len(t.pods) < t.opts.MinReplicas {
		return nil
	}
	t.acceptAll(c.State().Now)
	t.budget.begin(t.pods, len(t.pods), t.opts.Tolerance)
	for _, one := range t.candidates {
		if err := t.change(ctx, c, &t.pods[one.pod]); err != nil {
			return err
		}
	}
	return nil
}

// acceptAll lists the pods that the updater would change, in order.
func (t *Task) acceptAll(now time.Duration) {
	t.candidates = t.candidates[:0]
	for i := range t.pods {
		if one, ok := t.accept(i, now); ok {
			t.insert(one)
		}
	}
}

// accept reports whether the updater would change pod i, and in which order.
func (t *Task) accept(i int, now time.Duration) (candidate, bool) {
	p := &t.pods[i]
	r := &t.rec
	one := candidate{pod: i}
	if !p.scheduled {
		return one, false // the updater considers pods that have a node
	}
	one.scaleUp = r.Target.MilliCPU > p.requests.MilliCPU || r.Target.MemoryBytes > p.requests.MemoryBytes
	one.diff = difference(p.requests.MilliCPU, r.Target.MilliCPU) + difference(p.requests.MemoryBytes, r.Target.MemoryBytes)
	if t.opts.Updater == UpdaterUsage {
		return one, t.usageOutside(p)
	}
	outside := p.requests.MilliCPU < r.Lower.MilliCPU || p.requests.MilliCPU > r.Upper.MilliCPU ||
		p.requests.MemoryBytes < r.Lower.MemoryBytes || p.requests.MemoryBytes > r.Upper.MemoryBytes
	accepted := now-p.created >= inRangeAge && one.diff >= updateThreshold
	switch {
	case outside:
		accepted = true
	case p.killed && p.ran < t.evictAfterOOM:
		accepted = one.diff > 0
	}
	return one, accepted && t.admits(p.requests)
}

func difference(request, target int64) float64 {
	return math.Abs(float64(request-target)) / max(float64(request), 1)
}

// usageOutside is the rule of the earlier project: usage at or outside a bound, or at a limit.
func (t *Task) usageOutside(p *pod) bool {
	out := func(used, lower, upper, limit int64) bool {
		return lower >= used || used >= upper || limit > 0 && used >= limit
	}
	return out(p.used.MilliCPU, t.rec.Lower.MilliCPU, t.rec.Upper.MilliCPU, p.limits.MilliCPU) ||
		out(p.used.MemoryBytes, t.rec.Lower.MemoryBytes, t.rec.Upper.MemoryBytes, p.limits.MemoryBytes)
}

// insert keeps the candidates in order: pods to scale up first, then larger differences, then
// as they stand.
func (t *Task) insert(one candidate) {
	t.candidates = append(t.candidates, one)
	for i := len(t.candidates) - 1; i > 0; i-- {
		a, b := &t.candidates[i-1], &t.candidates[i]
		if a.scaleUp && !b.scaleUp || a.scaleUp == b.scaleUp && a.diff >= b.diff {
			return
		}
		*a, *b = *b, *a
	}
}

// budget is how many of the controller's running pods may be disrupted in a loop.
type budget struct {
	configured, tolerance int
	running, disrupted    int
}

func (b *budget) begin(pods []pod, configured int, tolerance float64) {
	*b = budget{configured: configured, tolerance: int(float64(configured) * tolerance)}
	for i := range pods {
		if pods[i].running() {
			b.running++
		}
	}
}

// permits reports whether p may be disrupted now. Pending pods may always be, and do not count.
func (b *budget) permits(p *pod) bool {
	return !p.running() || b.running-b.disrupted > b.configured-b.tolerance ||
		b.running == b.configured && b.tolerance == 0 && b.disrupted == 0
}

func (b *budget) spend(p *pod) {
	if p.running() {
		b.disrupted++
	}
}

// change evicts or resizes an accepted pod, if that is what the updater chooses.
func (t *Task) change(ctx context.Context, c cluster.Cluster, p *pod) error {
	now := c.State().Now
	switch t.choose(p, now) {
	case evictIt:
		t.budget.spend(p)
		return t.evict(ctx, c, p)
	case resizeIt:
		t.budget.spend(p)
		p.want, p.want.Limits, p.since = t.rec, t.limitsFor(&t.rec), now
		return t.resize(ctx, c, p)
	}
	return nil
}

// verdict is what the updater does with an accepted pod.
type verdict uint8

const (
	leaveIt verdict = iota
	evictIt
	resizeIt
)

// choose says what becomes of an accepted pod, as far as mode, budget and the state of its last
// resize permit.
func (t *Task) choose(p *pod, now time.Duration) verdict {
	evict := leaveIt
	if t.budget.permits(p) {
		evict = evictIt
	}
	if t.opts.Mode == ModeRecreate {
		return evict
	}
	stay := t.opts.Mode == ModeInPlace
	switch p.resize {
	case resizeDeferred:
		if !stay {
			if now-p.since < deferredPatience {
				return leaveIt
			}
			return evict
		}
	case resizeInProgress:
		if !stay {
			if now-p.since < progressPatience {
				return leaveIt
			}
			return evict
		}
	case resizeInfeasible:
		if !stay {
			return evict
		}
		if t.rec.Target.MilliCPU >= p.forgotten.MilliCPU && t.rec.Target.MemoryBytes >= p.forgotten.MemoryBytes {
			return leaveIt // until some target is lower than what was infeasible
		}
	}
	limits := t.limitsFor(&t.rec)
	if guaranteed(p.requests, p.limits) != guaranteed(t.rec.Target, limits) {
		if stay {
			return leaveIt // the API rejects it: a resize may not change the QoS class
		}
		return evict
	}
	if t.rec.Target == p.requests && limits == p.limits || !t.budget.permits(p) {
		return leaveIt
	}
	return resizeIt
}

// admits reports whether every eviction requirement holds for a pod with these requests.
// Upstream asks them of resizes in place as well.
func (t *Task) admits(requests cluster.Resources) bool {
	for _, r := range t.src.requirements {
		if !r.holds(requests, t.rec.Target) {
			return false
		}
	}
	return true
}
