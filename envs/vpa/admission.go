package vpa

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// cap holds target and bounds to the LimitRange and then to the policy's bounds, as upstream's
// post-processors do. It reports whether the target changed.
func (t *Task) cap(r *Recommendation) bool {
	target := r.Target
	for _, v := range []*cluster.Resources{&r.Lower, &r.Target, &r.Upper} {
		v.MilliCPU = min(max(v.MilliCPU, t.low.MilliCPU), t.high.MilliCPU)
		v.MemoryBytes = min(max(v.MemoryBytes, t.low.MemoryBytes), t.high.MemoryBytes)
		if t.opts.Controlled == RequestsOnly {
			if l := t.limits.MilliCPU; l != 0 {
				v.MilliCPU = min(v.MilliCPU, l)
			}
			if l := t.limits.MemoryBytes; l != 0 {
				v.MemoryBytes = min(v.MemoryBytes, l)
			}
		}
	}
	return r.Target != target
}

// bounds returns the least and the greatest request: the LimitRange, whose greatest amount
// holds for the limit, which is in proportion, and then the policy.
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

// start returns what a container requests at the start, its limit, and the greatest request whose
// proportional limit is within the LimitRange; of one resource, whose request is drawn, the limit
// is that of the trace, or in proportion, or the LimitRange's default for a container without
// one. That does not go with a request above it, or too far below it, as the API server rejects
// both.
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

// ratio is that of limits which follow requests.
func (o *Options) ratio(r float64) float64 {
	if o.Controlled == RequestsOnly {
		return 1
	}
	return max(r, 1)
}

// limitsFor returns the limits of a container with the given requests, as admission sets them:
// those at the start, times target over request at the start.
func (t *Task) limitsFor(r *Recommendation) cluster.Resources {
	switch {
	case r.SetLimits:
		greatest := amount(t.opts.RangeMaxCPU, t.opts.RangeMaxMemory)
		return cluster.Resources{
			MilliCPU:    explicit(r.Limits.MilliCPU, r.Target.MilliCPU, greatest.MilliCPU),
			MemoryBytes: explicit(r.Limits.MemoryBytes, r.Target.MemoryBytes, greatest.MemoryBytes),
		}
	case t.opts.Controlled == RequestsOnly:
		return t.limits
	}
	return cluster.Resources{
		MilliCPU:    proportional(t.limits.MilliCPU, t.initial.MilliCPU, r.Target.MilliCPU),
		MemoryBytes: proportional(t.limits.MemoryBytes, t.initial.MemoryBytes, r.Target.MemoryBytes),
	}
}

// explicit returns a limit that is set as it is, within the LimitRange, and no less than the
// request; 0 of either is none.
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
