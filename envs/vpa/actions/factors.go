package actions

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// Factors lists the factors by which a discrete action scales the target in force: that of CPU is action/7, that
// of memory action%7.
var Factors = [...]float64{0.5, 0.8, 0.95, 1, 1.05, 1.25, 2}

// keep is the index in Factors of the factor 1.
const keep = 3

// DecodeFactors returns the recommendation of a discrete action. An action that changes something sets both bounds to
// the target, so that the updater acts; the action that keeps everything sets them to low and high.
func DecodeFactors(action int, target, low, high cluster.Resources) pods.Recommendation {
	cpu, mem := action/len(Factors), action%len(Factors)
	r := pods.Constant(cluster.Resources{
		MilliCPU:    int64(math.Round(float64(target.MilliCPU) * Factors[cpu])),
		MemoryBytes: int64(math.Round(float64(target.MemoryBytes) * Factors[mem])),
	})
	if cpu == keep && mem == keep {
		r.Lower, r.Upper = low, high
	}
	return r
}

// EncodeFactors returns the nearest discrete action that does not go below r. It keeps a resource whose target lies
// within r's bounds. It scales any other resource by the least factor that reaches r's target, or by the greatest if
// none does.
func EncodeFactors(r *pods.Recommendation, target cluster.Resources) int {
	cpu := nearest(target.MilliCPU, r.Lower.MilliCPU, r.Target.MilliCPU, r.Upper.MilliCPU)
	mem := nearest(target.MemoryBytes, r.Lower.MemoryBytes, r.Target.MemoryBytes, r.Upper.MemoryBytes)
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
