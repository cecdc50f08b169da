package vpa

import (
	"context"
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// Elements of an action that sets requests and limits apart.
const (
	elemCPU = iota
	elemCPUGuard
	elemMemory
	elemMemoryGuard
	separateElements
)

const (
	leastGuard   = 0.02 // of a limit; below it there is none
	residualBase = 2    // element x of a residual action multiplies a request by residualBase^x
)

// base is the recommendation that residual actions correct.
type base struct {
	quantile quantileRule
	state    quantileState
	latest   pods.Recommendation
}

// askBase updates the recommendation that actions correct, if there is one.
func (t *Task) askBase(ctx context.Context, first bool) {
	if t.base == nil {
		return
	}
	if r, ok := t.base.quantile.recommend(ctx, t, first, &t.base.state); ok {
		t.base.latest = r
	}
}

// decodeSeparate returns the recommendation of an action that sets requests and limits apart. The
// guard of a resource is request over limit: 1 for equal ones, 0 for no limit.
func (c *codec) decodeSeparate(action []float32, of *base) pods.Recommendation {
	if of != nil {
		return correct(&of.latest, action)
	}
	r := pods.Banded(math.Round(c.scales[0].amount(action[elemCPU])), math.Round(c.scales[1].amount(action[elemMemory])))
	r.SetLimits = true
	r.Limits.MilliCPU = guarded(r.Target.MilliCPU, (float64(action[elemCPUGuard])+1)/2)
	r.Limits.MemoryBytes = guarded(r.Target.MemoryBytes, (float64(action[elemMemoryGuard])+1)/2)
	return r
}

// correct returns a recommendation with target and bounds times 2^x, and guards plus y, for the two elements
// x and y of each resource. Zeros change nothing.
func correct(of *pods.Recommendation, action []float32) pods.Recommendation {
	r := *of
	cpu, mem := math.Pow(residualBase, float64(action[elemCPU])), math.Pow(residualBase, float64(action[elemMemory]))
	for _, v := range []*cluster.Resources{&r.Lower, &r.Target, &r.Upper, &r.Uncapped} {
		v.MilliCPU, v.MemoryBytes = int64(math.Round(cpu*float64(v.MilliCPU))), int64(math.Round(mem*float64(v.MemoryBytes)))
	}
	r.Limits.MilliCPU = guarded(r.Target.MilliCPU, guard(of.Target.MilliCPU, of.Limits.MilliCPU)+float64(action[elemCPUGuard]))
	r.Limits.MemoryBytes = guarded(r.Target.MemoryBytes, guard(of.Target.MemoryBytes, of.Limits.MemoryBytes)+float64(action[elemMemoryGuard]))
	return r
}

// guard returns request over limit, and 0 for no limit.
func guard(request, limit int64) float64 {
	if limit == 0 {
		return 0
	}
	return min(float64(request)/float64(limit), 1)
}

// guarded returns the limit of a request with a guard, which is cut off at 1. It is none below leastGuard.
func guarded(request int64, guard float64) int64 {
	if guard < leastGuard {
		return 0
	}
	return int64(math.Round(float64(request) / min(guard, 1)))
}

// encodeSeparate writes the action nearest to r.
func (c *codec) encodeSeparate(r *pods.Recommendation, limits cluster.Resources, of *base, action []float32) {
	cpu, mem := guard(r.Target.MilliCPU, limits.MilliCPU), guard(r.Target.MemoryBytes, limits.MemoryBytes)
	if of == nil {
		action[elemCPU], action[elemCPUGuard] = c.scales[0].element(float64(r.Target.MilliCPU)), float32(2*cpu-1)
		action[elemMemory], action[elemMemoryGuard] = c.scales[1].element(float64(r.Target.MemoryBytes)), float32(2*mem-1)
		return
	}
	b := &of.latest
	action[elemCPU] = residual(r.Target.MilliCPU, b.Target.MilliCPU)
	action[elemMemory] = residual(r.Target.MemoryBytes, b.Target.MemoryBytes)
	action[elemCPUGuard] = float32(cpu - guard(b.Target.MilliCPU, b.Limits.MilliCPU))
	action[elemMemoryGuard] = float32(mem - guard(b.Target.MemoryBytes, b.Limits.MemoryBytes))
}

// residual returns the element by which a residual action makes the amount of the reference.
func residual(amount, reference int64) float32 {
	return float32(min(max(math.Log2(float64(max(amount, 1))/float64(max(reference, 1))), -1), 1))
}
