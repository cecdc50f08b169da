package rules

import (
	"cmp"
	"context"
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// HindsightMax never throttles and never kills: limits are at least requests.
func HindsightMax(_ context.Context, v *View, first bool) (pods.Recommendation, bool) {
	if !first {
		return pods.Recommendation{}, false
	}
	greatest := 0.0
	for _, s := range v.Shares {
		greatest = max(greatest, s)
	}
	return pods.Constant(metrics.Scale(workload.Max(v.Coming), greatest)), true
}

// hindsightGrid is the number of amounts that hindsightStatic tries.
const hindsightGrid = 400

// hindsightStatic tries constant requests from a hundredth of the largest demand to all of it: the CPU with the least
// cost, and the memory with the least cost among those whose limit holds the largest demand. It counts the demand of
// all pods and ignores the duration of the change to these requests.
func hindsightStatic(ctx context.Context, v *View, first bool) (pods.Recommendation, bool) {
	if !first {
		return pods.Recommendation{}, false
	}
	most, _ := HindsightMax(ctx, v, true)
	best := most.Target
	least := [2]float64{math.Inf(1), math.Inf(1)}
	for k := 1; k <= hindsightGrid; k++ {
		f := float64(k) / hindsightGrid
		r := pods.Recommendation{Target: cluster.Resources{
			MilliCPU:    max(1, int64(math.Ceil(f*float64(most.Target.MilliCPU)))),
			MemoryBytes: max(1, int64(math.Ceil(f*float64(most.Target.MemoryBytes)))),
		}}
		limits := v.Admission.LimitsFor(&r)
		cpu, mem := v.constantCost(ctx, r.Target, limits)
		if cpu < least[0] {
			least[0], best.MilliCPU = cpu, r.Target.MilliCPU
		}
		if holds := limits.MemoryBytes == 0 || limits.MemoryBytes >= most.Target.MemoryBytes; holds && mem < least[1] {
			least[1], best.MemoryBytes = mem, r.Target.MemoryBytes
		}
	}
	return pods.Constant(best), true
}

// constantCost returns the weighted cost of constant requests, in millicores and in bytes,
// summed over steps and pods, without kills and changes.
func (v *View) constantCost(ctx context.Context, requests, limits cluster.Resources) (cpu, mem float64) {
	w := v.Weights
	rc, rm, lc := float64(requests.MilliCPU), float64(requests.MemoryBytes), cmp.Or(float64(limits.MilliCPU), math.Inf(1))
	for _, share := range v.Shares {
		if ctx.Err() != nil {
			break
		}
		for _, u := range v.Coming {
			d, m := float64(u.MilliCPU)*share, float64(u.MemoryBytes)*share
			served := min(d, lc)
			cpu += w.Slack*max(rc-served, 0) + w.Overrun*(max(served-rc, 0)+prices.Unmet*(d-served))
			mem += w.Slack*max(rm-m, 0) + w.Overrun*max(m-rm, 0)
		}
	}
	return cpu, mem
}
