package vpa

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Recommendation is a recommender's output for the containers of a controller, in millicores and
// bytes. The updater changes pods with requests outside Lower and Upper; a pod requests Target when
// it is created or resized. Uncapped is the target before the policy's bounds; as in Kubernetes it is
// recorded and has no effect.
type Recommendation struct {
	Lower, Target, Upper, Uncapped cluster.Resources

	// Limits apply if SetLimits; 0 is no limit. Otherwise limits keep their proportion to
	// requests. Recommenders that choose limits too set both.
	Limits    cluster.Resources
	SetLimits bool
}

// constant returns the recommendation with target and bounds at r.
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
