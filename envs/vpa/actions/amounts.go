package actions

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// elements is the number of amounts of one resource in a recommendation: lower bound, target, upper bound and uncapped
// target.
const elements = 4

// Size is the length of an action that gives all amounts: those of CPU, then those of memory.
const Size = 2 * elements

// amounts returns the amounts of r in the order of an action's elements.
func amounts(r *pods.Recommendation) [elements]*cluster.Resources {
	return [...]*cluster.Resources{&r.Lower, &r.Target, &r.Upper, &r.Uncapped}
}

// Scales map elements to amounts of CPU and of memory, from the policy's least to its greatest.
type Scales [2]scale

// NewScales returns the scales of a policy.
func NewScales(o *pods.Options) Scales {
	return Scales{newScale(o.MinCPU, o.MaxCPU), newScale(o.MinMemory*mebibyte, o.MaxMemory*mebibyte)}
}

const mebibyte = 1 << 20

// Decode returns the recommendation whose amounts an action gives.
func (s *Scales) Decode(action []float32) (r pods.Recommendation) {
	for i, v := range amounts(&r) {
		v.MilliCPU = int64(math.Round(s[0].amount(action[i])))
		v.MemoryBytes = int64(math.Round(s[1].amount(action[elements+i])))
	}
	return r
}

// Encode writes the action nearest to r.
func (s *Scales) Encode(r *pods.Recommendation, action []float32) {
	for i, v := range amounts(r) {
		action[i], action[elements+i] = s[0].element(float64(v.MilliCPU)), s[1].element(float64(v.MemoryBytes))
	}
}

// scale maps action elements to amounts: element x is low·(high/low)^((x+1)/2).
type scale struct{ low, span float64 } // span is ln(high/low)

func newScale(low, high float64) scale { return scale{low, math.Log(high / low)} }

func (s scale) amount(x float32) float64 {
	return s.low * math.Exp(s.span*(float64(x)+1)/2)
}

// element returns the action element of an amount, clipped to the ends of the scale.
func (s scale) element(amount float64) float32 {
	if amount <= s.low {
		return -1
	}
	return float32(min(2*math.Log(amount/s.low)/s.span-1, 1))
}
