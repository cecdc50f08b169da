package vpa

import (
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

// constant returns the recommendation of requests that are never to change: target and bounds alike.
func constant(r cluster.Resources) Recommendation {
	return Recommendation{Lower: r, Target: r, Upper: r, Uncapped: r}
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
