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
