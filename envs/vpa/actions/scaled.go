package actions

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// Elements of an action that scales another recommendation.
const (
	elemScaleCPU = iota
	elemKeepCPU
	elemScaleCPULimit
	elemScaleMemory
	elemKeepMemory
	elemScaleMemoryLimit
	elemRestart
	ScaledSize
)

const (
	cpuRange     = 4   // element x multiplies a CPU request by cpuRange^x
	memoryRange  = 2   // … a memory request by memoryRange^x
	limitRange   = 2   // … a limit by limitRange^x
	restartAbove = 0.5 // element above which the pods restart; zeros, and noise around them, restart none
)

// Scaled returns base with the CPU request times 4^x, and the memory request and each limit times 2^x. A limit keeps
// its amount when its request changes, except that it is never below the request. An element k of the bounds below 0
// brings them nearer to their target: they are its (1+k)-th part away, in logarithms. Zeros change nothing.
func Scaled(base *pods.Recommendation, action []float32) pods.Recommendation {
	r := *base
	cpu, mem := math.Pow(cpuRange, float64(action[elemScaleCPU])), math.Pow(memoryRange, float64(action[elemScaleMemory]))
	for _, v := range amounts(&r) {
		v.MilliCPU = scaled(v.MilliCPU, base.Target.MilliCPU, cpu, action[elemKeepCPU])
		v.MemoryBytes = scaled(v.MemoryBytes, base.Target.MemoryBytes, mem, action[elemKeepMemory])
	}
	r.Limits.MilliCPU = scaledLimit(base.Limits.MilliCPU, r.Target.MilliCPU, action[elemScaleCPULimit])
	r.Limits.MemoryBytes = scaledLimit(base.Limits.MemoryBytes, r.Target.MemoryBytes, action[elemScaleMemoryLimit])
	return r
}

// scaled returns a target or a bound times a factor, and a bound nearer to its target by keep below 0.
func scaled(amount, target int64, factor float64, keep float32) int64 {
	if keep >= 0 || amount == target || amount == 0 || target == 0 {
		return int64(math.Round(factor * float64(amount)))
	}
	return int64(math.Round(factor * float64(target) * math.Pow(float64(amount)/float64(target), 1+float64(keep))))
}

// scaledLimit returns a limit times 2^element, at least the request; none stays none.
func scaledLimit(limit, request int64, element float32) int64 {
	if limit == 0 {
		return 0
	}
	return max(int64(math.Round(math.Pow(limitRange, float64(element))*float64(limit))), request)
}

// Keeps reports whether an action keeps requests and limits in place of those of r: the requests are within factors of
// 4^k (CPU) and 2^k (memory) of their targets, for the action's elements k of the two, and r neither adds nor removes a
// limit.
func Keeps(r *pods.Recommendation, requests, limits cluster.Resources, action []float32) bool {
	return near(requests.MilliCPU, r.Target.MilliCPU, cpuRange, action[elemKeepCPU]) && near(requests.MemoryBytes, r.Target.MemoryBytes, memoryRange, action[elemKeepMemory]) &&
		(limits.MilliCPU == 0) == (r.Limits.MilliCPU == 0) && (limits.MemoryBytes == 0) == (r.Limits.MemoryBytes == 0)
}

// near reports whether a request is within a factor of most^keep of its target.
func near(request, target int64, most float64, keep float32) bool {
	return keep > 0 && math.Abs(math.Log(float64(max(request, 1))/float64(max(target, 1)))) <= float64(keep)*math.Log(most)
}

// Restarts reports whether an action restarts the pods.
func Restarts(action []float32) bool { return action[elemRestart] > restartAbove }

// EncodeScaled writes the action that is nearest to the target of r with the given limits, and keeps and restarts
// nothing.
func EncodeScaled(r *pods.Recommendation, limits cluster.Resources, base *pods.Recommendation, action []float32) {
	clear(action[:ScaledSize])
	action[elemScaleCPU] = element(r.Target.MilliCPU, base.Target.MilliCPU, cpuRange)
	action[elemScaleMemory] = element(r.Target.MemoryBytes, base.Target.MemoryBytes, memoryRange)
	action[elemScaleCPULimit] = limitElement(limits.MilliCPU, base.Limits.MilliCPU)
	action[elemScaleMemoryLimit] = limitElement(limits.MemoryBytes, base.Limits.MemoryBytes)
}

// element returns the element that turns the reference into the amount, clipped to ±1.
func element(amount, reference int64, most float64) float32 {
	return float32(min(max(math.Log(float64(max(amount, 1))/float64(max(reference, 1)))/math.Log(most), -1), 1))
}

// limitElement returns the element of a limit. The highest one is nearest to none.
func limitElement(limit, base int64) float32 {
	if limit == 0 {
		return 1
	}
	return element(limit, base, limitRange)
}
