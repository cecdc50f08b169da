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

// updater evicts pods and resizes them in place by upstream's rules.
type updater struct {
	opts          *Options
	requirements  []requirement // of evictions
	evictAfterOOM time.Duration
	candidates    []candidate
	budget        budget
	limits        bool // limits that differ from the recommended ones are changed too
}

func newUpdater(src *source) updater {
	return updater{opts: &src.opts, requirements: src.requirements, evictAfterOOM: seconds(src.opts.EvictAfterOOM)}
}

// update runs one loop of the updater: it accepts pods, orders them, and evicts or resizes them as
// mode and budget permit. r is in force; limits sets the limits of changed pods.
func (u *updater) update(ctx context.Context, c cluster.Cluster, d *dynamics, r *Recommendation, limits *admission) error {
	if !u.acts(len(d.pods)) {
		return nil
	}
	now := c.State().Now
	u.acceptAll(d.pods, r, now)
	if len(u.candidates) == 0 {
		return nil
	}
	admitted := limits.admit(*r)
	u.budget.begin(d.pods, len(d.pods), u.opts.Tolerance)
	for _, one := range u.candidates {
		if err := u.change(ctx, c, d, &d.pods[one.pod], &admitted); err != nil {
			return err
		}
	}
	return nil
}

// acts reports whether mode and number of pods permit any change.
func (u *updater) acts(pods int) bool {
	return u.opts.Mode != ModeOff && u.opts.Mode != ModeInitial && pods >= u.opts.MinReplicas
}

// acceptAll lists the pods that the updater would change, in order.
func (u *updater) acceptAll(pods []pod, r *Recommendation, now time.Duration) {
	u.candidates = u.candidates[:0]
	for i := range pods {
		if one, ok := u.accept(&pods[i], r, now); ok {
			one.pod = i
			u.insert(one)
		}
	}
}

// accept reports whether the updater would change a pod, and in which order.
func (u *updater) accept(p *pod, r *Recommendation, now time.Duration) (one candidate, ok bool) {
	if !p.scheduled {
		return one, false // the updater considers pods that have a node
	}
	one.scaleUp = r.Target.MilliCPU > p.requests.MilliCPU || r.Target.MemoryBytes > p.requests.MemoryBytes
	one.diff = difference(p.requests.MilliCPU, r.Target.MilliCPU) + difference(p.requests.MemoryBytes, r.Target.MemoryBytes)
	if u.opts.Updater == UpdaterUsage {
		return one, usageOutside(p, r)
	}
	outside := p.requests.MilliCPU < r.Lower.MilliCPU || p.requests.MilliCPU > r.Upper.MilliCPU ||
		p.requests.MemoryBytes < r.Lower.MemoryBytes || p.requests.MemoryBytes > r.Upper.MemoryBytes ||
		u.limits && (limitOutside(p.limits.MilliCPU, r.Limits.MilliCPU) || limitOutside(p.limits.MemoryBytes, r.Limits.MemoryBytes))
	accepted := now-p.created >= inRangeAge && one.diff >= updateThreshold
	switch {
	case outside:
		accepted = true
	case p.killed && p.ran < u.evictAfterOOM:
		accepted = one.diff > 0
	}
	return one, accepted && u.admits(p.requests, r.Target)
}

// limitOutside reports whether a limit differs from the recommended one by more than the band around
// targets, or one of them is none.
func limitOutside(limit, want int64) bool {
	return (limit == 0) != (want == 0) || float64(limit) < float64(want)/bandLow || float64(limit) > bandHigh*float64(want)
}

func difference(request, target int64) float64 {
	return math.Abs(float64(request-target)) / max(float64(request), 1)
}

// usageOutside is the earlier project's criterion: usage at or outside a bound, or at a limit.
func usageOutside(p *pod, r *Recommendation) bool {
	out := func(used, lower, upper, limit int64) bool {
		return lower >= used || used >= upper || limit > 0 && used >= limit
	}
	return out(p.used.MilliCPU, r.Lower.MilliCPU, r.Upper.MilliCPU, p.limits.MilliCPU) ||
		out(p.used.MemoryBytes, r.Lower.MemoryBytes, r.Upper.MemoryBytes, p.limits.MemoryBytes)
}

// insert keeps the candidates in order: pods to scale up first, then larger differences, then
// in the order of the pods.
func (u *updater) insert(one candidate) {
	u.candidates = append(u.candidates, one)
	for i := len(u.candidates) - 1; i > 0; i-- {
		a, b := &u.candidates[i-1], &u.candidates[i]
		if a.scaleUp && !b.scaleUp || a.scaleUp == b.scaleUp && a.diff >= b.diff {
			return
		}
		*a, *b = *b, *a
	}
}

// budget counts how many of the controller's running pods a loop may disrupt.
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

// permits reports whether p may be disrupted now. Pending pods always may, and do not count.
func (b *budget) permits(p *pod) bool {
	return !p.running() || b.running-b.disrupted > b.configured-b.tolerance ||
		b.running == b.configured && b.tolerance == 0 && b.disrupted == 0
}

func (b *budget) spend(p *pod) {
	if p.running() {
		b.disrupted++
	}
}

// change carries out the updater's verdict on an accepted pod.
func (u *updater) change(ctx context.Context, c cluster.Cluster, d *dynamics, p *pod, r *Recommendation) error {
	now := c.State().Now
	switch u.choose(p, r, now) {
	case evictPod:
		u.budget.spend(p)
		return d.evict(ctx, c, p, r)
	case resizePod:
		u.budget.spend(p)
		p.want, p.since = *r, now
		return d.resize(ctx, c, p)
	}
	return nil
}

// verdict is the updater's decision on an accepted pod.
type verdict uint8

const (
	keepPod verdict = iota
	evictPod
	resizePod
)

// choose decides on an accepted pod by mode, budget and the state of its last resize.
func (u *updater) choose(p *pod, r *Recommendation, now time.Duration) verdict {
	evict := keepPod
	if u.budget.permits(p) {
		evict = evictPod
	}
	if u.opts.Mode == ModeRecreate {
		return evict
	}
	stay := u.opts.Mode == ModeInPlace
	switch p.resize {
	case resizeDeferred:
		if !stay {
			if now-p.since < deferredPatience {
				return keepPod
			}
			return evict
		}
	case resizeInProgress:
		if !stay {
			if now-p.since < progressPatience {
				return keepPod
			}
			return evict
		}
	case resizeInfeasible:
		if !stay {
			return evict
		}
		if r.Target.MilliCPU >= p.infeasible.MilliCPU && r.Target.MemoryBytes >= p.infeasible.MemoryBytes {
			return keepPod // until some target is lower than the infeasible one
		}
	}
	if guaranteed(p.requests, p.limits) != guaranteed(r.Target, r.Limits) || u.limits && removes(p.limits, r.Limits) {
		if stay {
			return keepPod // the API rejects it: a resize may neither change the QoS class nor remove a limit
		}
		return evict
	}
	if r.Target == p.requests && r.Limits == p.limits || !u.budget.permits(p) {
		return keepPod
	}
	return resizePod
}

// removes reports whether a limit is gone in the other limits.
func removes(limits, others cluster.Resources) bool {
	return limits.MilliCPU > 0 && others.MilliCPU == 0 || limits.MemoryBytes > 0 && others.MemoryBytes == 0
}

// guaranteed reports whether a pod is of the QoS class Guaranteed.
func guaranteed(requests, limits cluster.Resources) bool {
	return requests == limits
}

// admits reports whether every eviction requirement holds for a pod with these requests. Upstream
// checks them for resizes in place as well.
func (u *updater) admits(requests, target cluster.Resources) bool {
	for _, r := range u.requirements {
		if !r.holds(requests, target) {
			return false
		}
	}
	return true
}
