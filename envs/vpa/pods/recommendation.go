package pods

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Recommendation is a recommender's output for the containers of a controller, in millicores and bytes. The updater
// changes pods with requests outside Lower and Upper; a pod requests Target when it is created or resized. Uncapped is
// the target before the policy's bounds; as in Kubernetes, it is recorded and has no effect.
type Recommendation struct {
	Lower, Target, Upper, Uncapped cluster.Resources

	// Limits apply if SetLimits; 0 is no limit. Otherwise limits keep their proportion to
	// requests. Recommenders that choose limits too set both.
	Limits    cluster.Resources
	SetLimits bool
}

// Constant returns the recommendation with target and bounds at r.
func Constant(r cluster.Resources) Recommendation {
	return Recommendation{Lower: r, Target: r, Upper: r, Uncapped: r}
}

// Repair puts the bounds in order: it keeps the target, and moves a bound on the wrong side to it. It reports whether
// it changed anything.
func (r *Recommendation) Repair() bool {
	before := *r
	r.Lower.MilliCPU = min(r.Lower.MilliCPU, r.Target.MilliCPU)
	r.Lower.MemoryBytes = min(r.Lower.MemoryBytes, r.Target.MemoryBytes)
	r.Upper.MilliCPU = max(r.Upper.MilliCPU, r.Target.MilliCPU)
	r.Upper.MemoryBytes = max(r.Upper.MemoryBytes, r.Target.MemoryBytes)
	return *r != before
}

// Band around the targets of recommenders that give no bounds: the updater acts on requests
// that are below 1/bandLow or above bandHigh times the target.
const (
	bandLow  = 1.1
	bandHigh = 1.25
)

// Banded returns the recommendation of a target with bounds around it.
func Banded(cpu, mem float64) Recommendation {
	at := func(f float64) cluster.Resources {
		return cluster.Resources{MilliCPU: int64(math.Ceil(cpu * f)), MemoryBytes: int64(math.Ceil(mem * f))}
	}
	return Recommendation{Lower: at(1 / bandLow), Target: at(1), Upper: at(bandHigh), Uncapped: at(1)}
}
