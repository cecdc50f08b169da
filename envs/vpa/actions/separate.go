package actions

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// Elements of an action that sets requests and limits separately.
const (
	elemCPU = iota
	elemCPUGuard
	elemMemory
	elemMemoryGuard
	SeparateSize
)

const (
	leastGuard     = 0.02 // of a limit; below it there is none
	correctionBase = 2    // element x of a correction multiplies a request by correctionBase^x
)

// DecodeSeparate returns the recommendation of an action that sets requests and limits separately. The guard of a
// resource is request over limit: 1 for equal ones, 0 for no limit.
func (s *Scales) DecodeSeparate(action []float32) pods.Recommendation {
	r := pods.Banded(math.Round(s[0].amount(action[elemCPU])), math.Round(s[1].amount(action[elemMemory])))
	r.SetLimits = true
	r.Limits.MilliCPU = guarded(r.Target.MilliCPU, (float64(action[elemCPUGuard])+1)/2)
	r.Limits.MemoryBytes = guarded(r.Target.MemoryBytes, (float64(action[elemMemoryGuard])+1)/2)
	return r
}

// EncodeSeparate writes the action nearest to the target of r with the given limits.
func (s *Scales) EncodeSeparate(r *pods.Recommendation, limits cluster.Resources, action []float32) {
	cpu, mem := Guard(r.Target.MilliCPU, limits.MilliCPU), Guard(r.Target.MemoryBytes, limits.MemoryBytes)
	action[elemCPU], action[elemCPUGuard] = s[0].element(float64(r.Target.MilliCPU)), float32(2*cpu-1)
	action[elemMemory], action[elemMemoryGuard] = s[1].element(float64(r.Target.MemoryBytes)), float32(2*mem-1)
}

// Correct returns base with target and bounds times 2^x, and guards plus y, for the two elements x and y of each
// resource. Zeros change nothing, except that a guard of base below leastGuard leaves no limit.
func Correct(base *pods.Recommendation, action []float32) pods.Recommendation {
	r := *base
	cpu, mem := math.Pow(correctionBase, float64(action[elemCPU])), math.Pow(correctionBase, float64(action[elemMemory]))
	for _, v := range amounts(&r) {
		v.MilliCPU, v.MemoryBytes = int64(math.Round(cpu*float64(v.MilliCPU))), int64(math.Round(mem*float64(v.MemoryBytes)))
	}
	r.Limits.MilliCPU = guarded(r.Target.MilliCPU, Guard(base.Target.MilliCPU, base.Limits.MilliCPU)+float64(action[elemCPUGuard]))
	r.Limits.MemoryBytes = guarded(r.Target.MemoryBytes, Guard(base.Target.MemoryBytes, base.Limits.MemoryBytes)+float64(action[elemMemoryGuard]))
	return r
}

// EncodeCorrection writes the correction of base that is nearest to the target of r with the given limits.
func EncodeCorrection(r *pods.Recommendation, limits cluster.Resources, base *pods.Recommendation, action []float32) {
	cpu, mem := Guard(r.Target.MilliCPU, limits.MilliCPU), Guard(r.Target.MemoryBytes, limits.MemoryBytes)
	action[elemCPU] = correction(r.Target.MilliCPU, base.Target.MilliCPU)
	action[elemMemory] = correction(r.Target.MemoryBytes, base.Target.MemoryBytes)
	action[elemCPUGuard] = float32(cpu - Guard(base.Target.MilliCPU, base.Limits.MilliCPU))
	action[elemMemoryGuard] = float32(mem - Guard(base.Target.MemoryBytes, base.Limits.MemoryBytes))
}

// correction returns the element that turns the reference into the amount, clipped to ±1.
func correction(amount, reference int64) float32 {
	return float32(min(max(math.Log2(float64(max(amount, 1))/float64(max(reference, 1))), -1), 1))
}

// Guard returns request over limit; 0 for no limit.
func Guard(request, limit int64) float64 {
	if limit == 0 {
		return 0
	}
	return min(float64(request)/float64(limit), 1)
}

// guarded returns the limit of a request with a guard, which is clipped to 1. Below leastGuard there is no limit.
func guarded(request int64, guard float64) int64 {
	if guard < leastGuard {
		return 0
	}
	return int64(math.Round(float64(request) / min(guard, 1)))
}
