package pods

import (
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Constants of the upstream updater.
const (
	updateThreshold  = 0.1            // relative difference that updates an old pod
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

// Updater evicts pods and resizes them in place by upstream's rules.
type Updater struct {
	opts          *Options
	Requirements  []Requirement // of evictions
	EvictAfterOOM time.Duration
	candidates    []candidate
	budget        budget
	Limits        bool // also change limits that differ from the recommended ones
}

// NewUpdater returns an updater that disrupts pods only as the requirements permit.
func NewUpdater(o *Options, requirements []Requirement) Updater {
	return Updater{opts: o, Requirements: requirements, EvictAfterOOM: Duration(o.EvictAfterOOM)}
}

// Clone returns a copy for other pods.
func (u *Updater) Clone() Updater {
	c := *u
	c.candidates = nil
	return c
}

// Update runs one loop of the updater: it accepts pods, orders them, and calls do for each pod that mode and budget
// permit it to evict or, if not, to resize in place. configured is the controller's desired count. The first error of
// do ends the loop.
func (u *Updater) Update(pods []Pod, configured int, admitted *Recommendation, now time.Duration, do func(i int, evict bool) error) error {
	if !u.acts(len(pods)) {
		return nil
	}
	u.acceptAll(pods, admitted, now)
	u.budget.begin(pods, configured, u.opts.Tolerance)
	for _, one := range u.candidates {
		p := &pods[one.pod]
		what := u.choose(p, admitted, now)
		if what == keepPod {
			continue
		}
		u.budget.spend(p)
		p.Want = *admitted
		if err := do(one.pod, what == evictPod); err != nil {
			return err
		}
	}
	return nil
}

// acts reports whether mode and number of pods permit any change.
func (u *Updater) acts(pods int) bool {
	return u.opts.Mode != ModeOff && u.opts.Mode != ModeInitial && pods >= u.opts.MinReplicas
}

// acceptAll lists the pods that the updater would change, in order.
func (u *Updater) acceptAll(pods []Pod, r *Recommendation, now time.Duration) {
	u.candidates = u.candidates[:0]
	for i := range pods {
		if one, ok := u.accept(&pods[i], r, now); ok {
			one.pod = i
			u.insert(one)
		}
	}
}

// accept reports whether the updater would change a pod, and in which order.
func (u *Updater) accept(p *Pod, r *Recommendation, now time.Duration) (one candidate, ok bool) {
	if !p.Scheduled {
		return one, false // the updater only considers pods that have a node
	}
	one.scaleUp = r.Target.MilliCPU > p.Requests.MilliCPU || r.Target.MemoryBytes > p.Requests.MemoryBytes
	one.diff = difference(p.Requests.MilliCPU, r.Target.MilliCPU) + difference(p.Requests.MemoryBytes, r.Target.MemoryBytes)
	if u.opts.Updater == UpdaterUsage {
		return one, usageOutside(p, r)
	}
	outside := p.Requests.MilliCPU < r.Lower.MilliCPU || p.Requests.MilliCPU > r.Upper.MilliCPU ||
		p.Requests.MemoryBytes < r.Lower.MemoryBytes || p.Requests.MemoryBytes > r.Upper.MemoryBytes ||
		u.Limits && (limitOutside(p.Limits.MilliCPU, r.Limits.MilliCPU) || limitOutside(p.Limits.MemoryBytes, r.Limits.MemoryBytes))
	accepted := now-p.Created >= inRangeAge && one.diff >= updateThreshold
	switch {
	case outside:
		accepted = true
	case p.Killed && p.Ran < u.EvictAfterOOM:
		accepted = one.diff > 0
	}
	return one, accepted && u.admits(p.Requests, r.Target)
}

// limitOutside reports whether a limit differs from the recommended one by more than the band around targets, or only
// one of the two exists.
func limitOutside(limit, want int64) bool {
	return (limit == 0) != (want == 0) || float64(limit) < float64(want)/bandLow || float64(limit) > bandHigh*float64(want)
}

func difference(request, target int64) float64 {
	return math.Abs(float64(request-target)) / max(float64(request), 1)
}

// usageOutside is the earlier project's criterion: usage at or outside a bound, or at a limit.
func usageOutside(p *Pod, r *Recommendation) bool {
	out := func(used, lower, upper, limit int64) bool {
		return lower >= used || used >= upper || limit > 0 && used >= limit
	}
	return out(p.Used.MilliCPU, r.Lower.MilliCPU, r.Upper.MilliCPU, p.Limits.MilliCPU) ||
		out(p.Used.MemoryBytes, r.Lower.MemoryBytes, r.Upper.MemoryBytes, p.Limits.MemoryBytes)
}

// insert keeps the candidates in order: pods to scale up first, then larger differences first, then in the order of the
// pods.
func (u *Updater) insert(one candidate) {
	u.candidates = append(u.candidates, one)
	for i := len(u.candidates) - 1; i > 0; i-- {
		a, b := &u.candidates[i-1], &u.candidates[i]
		if a.scaleUp && !b.scaleUp || a.scaleUp == b.scaleUp && a.diff >= b.diff {
			return
		}
		*a, *b = *b, *a
	}
}

// budget counts the controller's running pods that a loop may disrupt.
type budget struct {
	configured, tolerance int
	running, disrupted    int
}

func (b *budget) begin(pods []Pod, configured int, tolerance float64) {
	*b = budget{configured: configured, tolerance: int(float64(configured) * tolerance)}
	for i := range pods {
		if pods[i].running() {
			b.running++
		}
	}
}

// permits reports whether p may be disrupted now. Pending pods always may, and do not count.
func (b *budget) permits(p *Pod) bool {
	return !p.running() || b.running-b.disrupted > b.configured-b.tolerance ||
		b.running == b.configured && b.tolerance == 0 && b.disrupted == 0
}

func (b *budget) spend(p *Pod) {
	if p.running() {
		b.disrupted++
	}
}

// verdict is the updater's decision on an accepted pod.
type verdict uint8

const (
	keepPod verdict = iota
	evictPod
	resizePod
)

// choose decides on an accepted pod by mode, budget and the state of its last resize.
func (u *Updater) choose(p *Pod, r *Recommendation, now time.Duration) verdict {
	evict := keepPod
	if u.budget.permits(p) {
		evict = evictPod
	}
	if u.opts.Mode == ModeRecreate {
		return evict
	}
	stay := u.opts.Mode == ModeInPlace
	switch p.Resize {
	case ResizeDeferred:
		if !stay {
			if now-p.Since < deferredPatience {
				return keepPod
			}
			return evict
		}
	case ResizeInProgress:
		if !stay {
			if now-p.Since < progressPatience {
				return keepPod
			}
			return evict
		}
	case ResizeInfeasible:
		if !stay {
			return evict
		}
		if r.Target.MilliCPU >= p.Infeasible.MilliCPU && r.Target.MemoryBytes >= p.Infeasible.MemoryBytes {
			return keepPod // not again until some target is lower than the infeasible one
		}
	}
	if guaranteed(p.Requests, p.Limits) != guaranteed(r.Target, r.Limits) || u.Limits && removes(p.Limits, r.Limits) {
		if stay {
			return keepPod // the API rejects a resize that changes the QoS class or removes a limit
		}
		return evict
	}
	if r.Target == p.Requests && r.Limits == p.Limits || !u.budget.permits(p) {
		return keepPod
	}
	return resizePod
}

// removes reports whether others lacks a limit that limits has.
func removes(limits, others cluster.Resources) bool {
	return limits.MilliCPU > 0 && others.MilliCPU == 0 || limits.MemoryBytes > 0 && others.MemoryBytes == 0
}

// guaranteed reports whether a pod is of the QoS class Guaranteed.
func guaranteed(requests, limits cluster.Resources) bool {
	return requests == limits
}

// admits reports whether every eviction requirement holds for a pod with these requests. Upstream
// checks them for resizes in place as well.
func (u *Updater) admits(requests, target cluster.Resources) bool {
	return !slices.ContainsFunc(u.Requirements, func(r Requirement) bool { return !r.holds(requests, target) })
}
