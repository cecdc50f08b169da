package pods

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Admission caps recommendations by policy and LimitRange, and gives new pods their requests and
// limits, by the rules of upstream's admission controller.
type Admission struct {
	opts            *Options
	Low, High       cluster.Resources // of requests
	Initial, Limits cluster.Resources // of a container at the start
}

// NewAdmission returns the admission of a policy. [Admission.Begin] sets the state of the containers.
func NewAdmission(o *Options) Admission {
	a := Admission{opts: o}
	a.Low, a.High = o.Bounds()
	return a
}

// Begin sets the containers' requests and limits at the start: the given ones, or for requests of 0 the peak of usage
// times the factors of CPU and memory.
func (a *Admission) Begin(requests, limits, peak cluster.Resources, factors [2]float64) {
	want := cluster.Resources{
		MilliCPU:    int64(math.Ceil(factors[0] * float64(peak.MilliCPU))),
		MemoryBytes: int64(math.Ceil(factors[1] * float64(peak.MemoryBytes))),
	}
	if requests.MilliCPU > 0 {
		want.MilliCPU = requests.MilliCPU
	}
	if requests.MemoryBytes > 0 {
		want.MemoryBytes = requests.MemoryBytes
	}
	// Before limits are known, RequestsOnly has none to respect.
	a.Limits = cluster.Resources{}
	a.Low, a.High = a.opts.Bounds()
	first := Constant(want)
	a.Cap(&first)
	a.Initial = first.Target
	o, implied, greatest := a.opts, Amount(a.opts.RangeCPU, a.opts.RangeMemory), Amount(a.opts.RangeMaxCPU, a.opts.RangeMaxMemory)
	r, l, high, trace := &a.Initial, &a.Limits, &a.High, limits
	r.MilliCPU, l.MilliCPU, high.MilliCPU = o.start(r.MilliCPU, trace.MilliCPU, implied.MilliCPU, greatest.MilliCPU, high.MilliCPU, o.LimitRatioCPU)
	r.MemoryBytes, l.MemoryBytes, high.MemoryBytes = o.start(r.MemoryBytes, trace.MemoryBytes, implied.MemoryBytes, greatest.MemoryBytes, high.MemoryBytes, o.LimitRatioMemory)
}

// Admit returns r with the limits that admission gives a container with its target.
func (a *Admission) Admit(r Recommendation) Recommendation {
	r.Limits = a.LimitsFor(&r)
	return r
}

// Cap applies the LimitRange and then the policy's bounds to target and bounds, as upstream's
// post-processors do. It reports whether the target changed.
func (a *Admission) Cap(r *Recommendation) bool {
	target := r.Target
	for _, v := range []*cluster.Resources{&r.Lower, &r.Target, &r.Upper} {
		v.MilliCPU = min(max(v.MilliCPU, a.Low.MilliCPU), a.High.MilliCPU)
		v.MemoryBytes = min(max(v.MemoryBytes, a.Low.MemoryBytes), a.High.MemoryBytes)
		if a.opts.Controlled == RequestsOnly {
			if l := a.Limits.MilliCPU; l != 0 {
				v.MilliCPU = min(v.MilliCPU, l)
			}
			if l := a.Limits.MemoryBytes; l != 0 {
				v.MemoryBytes = min(v.MemoryBytes, l)
			}
		}
	}
	return r.Target != target
}

// LimitsFor returns the limits that admission gives a container with the recommendation r: explicit ones, or those at
// the start, scaled by target over request at the start.
func (a *Admission) LimitsFor(r *Recommendation) cluster.Resources {
	switch {
	case r.SetLimits:
		greatest := Amount(a.opts.RangeMaxCPU, a.opts.RangeMaxMemory)
		return cluster.Resources{
			MilliCPU:    explicit(r.Limits.MilliCPU, r.Target.MilliCPU, greatest.MilliCPU),
			MemoryBytes: explicit(r.Limits.MemoryBytes, r.Target.MemoryBytes, greatest.MemoryBytes),
		}
	case a.opts.Controlled == RequestsOnly:
		return a.Limits
	}
	return cluster.Resources{
		MilliCPU:    proportional(a.Limits.MilliCPU, a.Initial.MilliCPU, r.Target.MilliCPU),
		MemoryBytes: proportional(a.Limits.MemoryBytes, a.Initial.MemoryBytes, r.Target.MemoryBytes),
	}
}

// explicit returns a recommended limit, capped by the LimitRange and at least the request. A limit or LimitRange of 0
// is none.
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
