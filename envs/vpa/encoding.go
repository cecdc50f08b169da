package vpa

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/actions"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/rules"
)

// decode returns the recommendation that an action encodes for the k-th step that it holds, with safe memory.
func (t *Task) decode(action []float32, k int) (r pods.Recommendation) {
	switch {
	case t.src.discrete:
		r = actions.DecodeFactors(int(action[0]), t.rec.Target, t.admission.Low, t.admission.High)
	case t.base != nil:
		r = t.base.Decode(action, k, &t.dynamics.Pods[0])
	case t.dynamics.Node != nil:
		r = t.scales.DecodeSeparate(action)
	case t.opts.Encoding == EncodingLog:
		r = t.scales.Decode(action)
	default:
		refs := t.references()
		r = refs.Decode(action)
	}
	t.secure(&r)
	return r
}

// encode writes the action nearest to r.
func (t *Task) encode(r *pods.Recommendation, action []float32) {
	switch {
	case t.src.discrete:
		action[0] = float32(actions.EncodeFactors(r, t.rec.Target))
	case t.base != nil:
		t.base.Encode(r, t.admission.LimitsFor(r), action)
	case t.dynamics.Node != nil:
		t.scales.EncodeSeparate(r, t.admission.LimitsFor(r), action)
	case t.opts.Encoding == EncodingLog:
		t.scales.Encode(r, action)
	default:
		refs := t.references()
		refs.Encode(r, action)
	}
}

// references returns the amounts that elements of relative actions multiply: the peaks of the last hour, or the
// elements of upstream's recommendation, and at least the policy's least amounts.
func (t *Task) references() (refs actions.References) {
	low, hour := t.admission.Low, &t.metrics.Hour
	for i := range refs {
		cpu, mem := hour[0].Max(), hour[1].Max()
		if t.opts.Encoding == EncodingUpstream {
			u := &t.feed.Latest
			v := [...]cluster.Resources{u.Lower, u.Target, u.Upper, u.Uncapped}[i]
			cpu, mem = float64(v.MilliCPU), float64(v.MemoryBytes)
		}
		refs[i] = [2]float64{max(cpu, float64(low.MilliCPU)), max(mem, float64(low.MemoryBytes))}
	}
	return refs
}

// secure raises the memory of an action's recommendation, with the option safety: all elements to upstream's
// recommendation, the lower bound also to the peak of the last day, and the target also to that peak and a margin.
// Limits follow in proportion to the target.
func (t *Task) secure(r *pods.Recommendation) {
	if t.opts.Safety != SafetyMemory {
		return
	}
	peak, up := t.metrics.Day[1].Max(), &t.feed.Latest
	r.Lower.MemoryBytes = max(r.Lower.MemoryBytes, up.Lower.MemoryBytes, int64(peak))
	r.Target.MemoryBytes = max(r.Target.MemoryBytes, up.Target.MemoryBytes, int64(math.Ceil(rules.Margin*peak)))
	r.Upper.MemoryBytes = max(r.Upper.MemoryBytes, up.Upper.MemoryBytes)
}
