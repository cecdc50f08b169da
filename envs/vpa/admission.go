package vpa

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// admission caps recommendations by policy and LimitRange, and gives new pods their requests and
// limits, by the rules of upstream's admission controller.
type admission struct {
	opts            *Options
	low, high       cluster.Resources // of requests
	initial, limits cluster.Resources // of a container at the start
}

// begin sets the containers' requests and limits at the start: those in the workload's file, or the
// history's peak times the drawn factors.
func (a *admission) begin(in *instance, seen []cluster.Resources) {
	peak := workload.Max(seen)
	want := cluster.Resources{
		MilliCPU:    int64(math.Ceil(in.factors[0] * float64(peak.MilliCPU))),
		MemoryBytes: int64(math.Ceil(in.factors[1] * float64(peak.MemoryBytes))),
	}
	if in.requests.MilliCPU > 0 {
		want.MilliCPU = in.requests.MilliCPU
	}
	if in.requests.MemoryBytes > 0 {
		want.MemoryBytes = in.requests.MemoryBytes
	}
	// Before limits are known, RequestsOnly has none to hold requests to.
	a.limits = cluster.Resources{}
	a.low, a.high = a.opts.bounds()
	first := constant(want)
	a.cap(&first)
	a.initial = first.Target
	o, implied, greatest := a.opts, amount(a.opts.RangeCPU, a.opts.RangeMemory), amount(a.opts.RangeMaxCPU, a.opts.RangeMaxMemory)
	r, l, high, trace := &a.initial, &a.limits, &a.high, in.limits
	r.MilliCPU, l.MilliCPU, high.MilliCPU = o.start(r.MilliCPU, trace.MilliCPU, implied.MilliCPU, greatest.MilliCPU, high.MilliCPU, o.LimitRatioCPU)
	r.MemoryBytes, l.MemoryBytes, high.MemoryBytes = o.start(r.MemoryBytes, trace.MemoryBytes, implied.MemoryBytes, greatest.MemoryBytes, high.MemoryBytes, o.LimitRatioMemory)
}

// admit returns r with the limits that a container gets with its target.
func (a *admission) admit(r Recommendation) Recommendation {
	r.Limits = a.limitsFor(&r)
	return r
}

// cap applies the LimitRange and then the policy's bounds to target and bounds, as upstream's
// post-processors do. It reports whether the target changed.
func (a *admission) cap(r *Recommendation) bool {
	target := r.Target
	for _, v := range []*cluster.Resources{&r.Lower, &r.Target, &r.Upper} {
		v.MilliCPU = min(max(v.MilliCPU, a.low.MilliCPU), a.high.MilliCPU)
		v.MemoryBytes = min(max(v.MemoryBytes, a.low.MemoryBytes), a.high.MemoryBytes)
		if a.opts.Controlled == RequestsOnly {
			if l := a.limits.MilliCPU; l != 0 {
				v.MilliCPU = min(v.MilliCPU, l)
			}
			if l := a.limits.MemoryBytes; l != 0 {
				v.MemoryBytes = min(v.MemoryBytes, l)
			}
		}
	}
	return r.Target != target
}

// bounds returns the least and the greatest request by the policy and the LimitRange. The
// LimitRange's greatest amount bounds the limit, which is in proportion to the request.
func (o *Options) bounds() (low, high cluster.Resources) {
	low = amount(max(o.MinCPU, o.RangeMinCPU), max(o.MinMemory, o.RangeMinMemory))
	high = amount(o.MaxCPU, o.MaxMemory)
	ranged := amount(o.RangeMaxCPU, o.RangeMaxMemory)
	if o.RangeMaxCPU > 0 {
		high.MilliCPU = min(high.MilliCPU, int64(float64(ranged.MilliCPU)/o.ratio(o.LimitRatioCPU)))
	}
	if o.RangeMaxMemory > 0 {
		high.MemoryBytes = min(high.MemoryBytes, int64(float64(ranged.MemoryBytes)/o.ratio(o.LimitRatioMemory)))
	}
	high.MilliCPU, high.MemoryBytes = max(high.MilliCPU, low.MilliCPU), max(high.MemoryBytes, low.MemoryBytes)
	return low, high
}

// start returns a container's request of one resource at the start, its limit, and the greatest
// request whose proportional limit is within the LimitRange. The limit is that of the trace, or in
// proportion to the request, or the LimitRange's default for a container without one. The API
// server rejects a request above that default or too far below it, so start moves the request.
func (o *Options) start(request, trace, implied, greatest, high int64, ratio float64) (int64, int64, int64) {
	var limit int64
	switch {
	case trace > 0:
		limit = max(trace, request)
	case ratio > 0:
		return request, int64(float64(request) * ratio), high
	case implied == 0:
		return request, 0, high
	default:
		limit, request = implied, min(request, implied)
		if o.RangeRatio > 0 {
			request = max(request, int64(math.Ceil(float64(limit)/o.RangeRatio)))
		}
	}
	if greatest > 0 {
		limit = min(limit, greatest)
		if o.Controlled == RequestsAndLimits {
			high = min(high, int64(float64(greatest)*float64(request)/float64(limit)))
		}
	}
	return request, limit, high
}

// ratio returns the ratio of a limit to its request if limits follow requests, and else 1.
func (o *Options) ratio(r float64) float64 {
	if o.Controlled == RequestsOnly {
		return 1
	}
	return max(r, 1)
}

// limitsFor returns the limits of a container with the given requests, as admission sets them:
// those at the start, times target over request at the start.
func (a *admission) limitsFor(r *Recommendation) cluster.Resources {
	switch {
	case r.SetLimits:
		greatest := amount(a.opts.RangeMaxCPU, a.opts.RangeMaxMemory)
		return cluster.Resources{
			MilliCPU:    explicit(r.Limits.MilliCPU, r.Target.MilliCPU, greatest.MilliCPU),
			MemoryBytes: explicit(r.Limits.MemoryBytes, r.Target.MemoryBytes, greatest.MemoryBytes),
		}
	case a.opts.Controlled == RequestsOnly:
		return a.limits
	}
	return cluster.Resources{
		MilliCPU:    proportional(a.limits.MilliCPU, a.initial.MilliCPU, r.Target.MilliCPU),
		MemoryBytes: proportional(a.limits.MemoryBytes, a.initial.MemoryBytes, r.Target.MemoryBytes),
	}
}

// explicit returns a recommended limit, capped by the LimitRange and no less than the request. A
// limit or LimitRange of 0 is none.
func explicit(limit, request, greatest int64) int64 {
	if limit == 0 {
		return 0
	}
	if greatest > 0 {
		limit = min(limit, greatest)
	}
	return max(limit, request)
}

// proportional returns trunc(limit·target/request): 0 for no limit, and target itself for a
// limit that equals its request.
func proportional(limit, request, target int64) int64 {
	switch {
	case limit == 0:
		return 0
	case limit == request:
		return target
	}
	l := float64(limit) * float64(target) / float64(request)
	return max(target, int64(min(l, float64(cluster.MaxAmount))))
}
