package vpa

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Recommendation is what a recommender says of the containers of a controller: millicores and
// bytes. The updater acts where requests lie outside Lower and Upper, and Target is what a pod
// requests when it is created or resized. Uncapped is the target before the policy's bounds; as
// in Kubernetes it is recorded and acted upon by nobody.
type Recommendation struct {
	Lower, Target, Upper, Uncapped cluster.Resources

	// Limits are set as they are if SetLimits; 0 is no limit. Otherwise limits keep their
	// proportion to requests. It is for recommenders that choose limits too.
	Limits    cluster.Resources
	SetLimits bool
}

// repair puts the bounds in order: the target stays, and a bound on its wrong side is moved to
// it. It reports whether it changed anything.
func (r *Recommendation) repair() bool {
	before := *r
	r.Lower.MilliCPU = min(r.Lower.MilliCPU, r.Target.MilliCPU)
	r.Lower.MemoryBytes = min(r.Lower.MemoryBytes, r.Target.MemoryBytes)
	r.Upper.MilliCPU = max(r.Upper.MilliCPU, r.Target.MilliCPU)
	r.Upper.MemoryBytes = max(r.Upper.MemoryBytes, r.Target.MemoryBytes)
	return *r != before
}

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

// Scale of amounts in actions: element x is low·(high/low)^((x+1)/2).
type scale struct{ low, span float64 } // span is ln(high/low)

func newScale(low, high float64) scale { return scale{low, math.Log(high / low)} }

func (s scale) amount(x float32) float64 {
	return s.low * math.Exp(s.span*(float64(x)+1)/2)
}

// element returns the action element of an amount, cut off at the ends of the scale.
func (s scale) element(amount float64) float32 {
	if amount <= s.low {
		return -1
	}
	return float32(min(2*math.Log(amount/s.low)/s.span-1, 1))
}

// relativeRange is the greatest factor of a relative action: element x is relativeRange^x.
const relativeRange = 4

// Elements of a continuous action: the four of CPU, then the four of memory.
const (
	elemLower = iota
	elemTarget
	elemUpper
	elemUncapped
	elements
)

// decode returns the recommendation that a continuous action stands for.
func (t *Task) decode(action []float32) Recommendation {
	var r Recommendation
	amounts := [...]*cluster.Resources{&r.Lower, &r.Target, &r.Upper, &r.Uncapped}
	if t.opts.Encoding == EncodingLog {
		for i, v := range amounts {
			v.MilliCPU = int64(math.Round(t.scales[0].amount(action[i])))
			v.MemoryBytes = int64(math.Round(t.scales[1].amount(action[elements+i])))
		}
		return r
	}
	for i, v := range amounts {
		cpu, mem := t.reference(i)
		v.MilliCPU = int64(math.Round(cpu * math.Pow(relativeRange, float64(action[i]))))
		v.MemoryBytes = int64(math.Round(mem * math.Pow(relativeRange, float64(action[elements+i]))))
	}
	return r
}

// reference returns the amounts of which element i of relative actions is a factor: the peaks of
// the last hour, or the same element of what upstream's recommender gives; and no less than the
// policy's least amounts.
func (t *Task) reference(i int) (cpu, mem float64) {
	cpu, mem = t.hour[0].max(), t.hour[1].max()
	if t.opts.Encoding == EncodingUpstream {
		u := [...]cluster.Resources{t.up.Lower, t.up.Target, t.up.Upper, t.up.Uncapped}[i]
		cpu, mem = float64(u.MilliCPU), float64(u.MemoryBytes)
	}
	return max(cpu, float64(t.low.MilliCPU)), max(mem, float64(t.low.MemoryBytes))
}

// secure raises the memory of an action's recommendation, if the option safety asks for it: to
// what upstream's recommender gives, the lower bound to the peak of the last day, and the target
// to that and a margin, too. Limits are in proportion to the target.
func (t *Task) secure(r *Recommendation) {
	if t.opts.Safety != SafetyMemory {
		return
	}
	peak := t.all[1].max()
	r.Lower.MemoryBytes = max(r.Lower.MemoryBytes, t.up.Lower.MemoryBytes, int64(peak))
	r.Target.MemoryBytes = max(r.Target.MemoryBytes, t.up.Target.MemoryBytes, int64(math.Ceil(margin*peak)))
	r.Upper.MemoryBytes = max(r.Upper.MemoryBytes, t.up.Upper.MemoryBytes)
}

// encode writes the action that comes nearest to r.
func (t *Task) encode(r *Recommendation, action []float32) {
	for i, v := range [...]*cluster.Resources{&r.Lower, &r.Target, &r.Upper, &r.Uncapped} {
		if t.opts.Encoding == EncodingLog {
			action[i] = t.scales[0].element(float64(v.MilliCPU))
			action[elements+i] = t.scales[1].element(float64(v.MemoryBytes))
			continue
		}
		cpu, mem := t.reference(i)
		action[i] = relative(float64(v.MilliCPU), cpu)
		action[elements+i] = relative(float64(v.MemoryBytes), mem)
	}
}

// relative returns the element of a relative action that stands for the amount, cut off at ±1.
func relative(amount, reference float64) float32 {
	if amount <= 0 {
		return -1
	}
	return float32(min(max(math.Log(amount/reference)/math.Log(relativeRange), -1), 1))
}

// Factors are those by which an element of a discrete action scales the target in force.
var Factors = [...]float64{0.5, 0.8, 0.95, 1, 1.05, 1.25, 2}

// keep is the index in Factors of the factor 1.
const keep = 3

// decodeDiscrete returns the recommendation of a discrete action: the factor of CPU is
// action/7, that of memory action%7. An action that changes something puts both bounds at the
// target, so that the updater acts; the one that keeps everything leaves them wide open.
func (t *Task) decodeDiscrete(action int) Recommendation {
	cpu, mem := action/len(Factors), action%len(Factors)
	target := cluster.Resources{
		MilliCPU:    int64(math.Round(float64(t.rec.Target.MilliCPU) * Factors[cpu])),
		MemoryBytes: int64(math.Round(float64(t.rec.Target.MemoryBytes) * Factors[mem])),
	}
	if cpu == keep && mem == keep {
		return Recommendation{Lower: t.low, Target: target, Upper: t.high, Uncapped: target}
	}
	return Recommendation{Lower: target, Target: target, Upper: target, Uncapped: target}
}

// encodeDiscrete returns the action that comes nearest to r and not below it: it keeps a
// resource whose target in force lies within r's bounds, and else takes the least factor that
// reaches r's target, or the greatest if none does.
func (t *Task) encodeDiscrete(r *Recommendation) int {
	cpu := nearest(t.rec.Target.MilliCPU, r.Lower.MilliCPU, r.Target.MilliCPU, r.Upper.MilliCPU)
	mem := nearest(t.rec.Target.MemoryBytes, r.Lower.MemoryBytes, r.Target.MemoryBytes, r.Upper.MemoryBytes)
	return cpu*len(Factors) + mem
}

func nearest(now, lower, target, upper int64) int {
	if now >= lower && now <= upper {
		return keep
	}
	for i, f := range Factors {
		if math.Round(float64(now)*f) >= float64(target) {
			return i
		}
	}
	return len(Factors) - 1
}
