package kubescore

import "math"

// Resource is one resource of a node as the plugins of NodeResources see it.
type Resource struct {
	Requested   int64 // by the node's pods and the pod to be placed
	Allocatable int64 // resources that the node does not have are omitted
	Weight      int64 // ignored by BalancedAllocation
}

// LeastAllocated is the strategy of that name, the default of NodeResourcesFit: the weighted mean of
// 100*(allocatable-requested)/allocatable, with 0 for a resource whose requests exceed allocatable.
func LeastAllocated(resources ...Resource) int64 {
	var sum, weights int64
	for i := range resources {
		if r := &resources[i]; r.Allocatable > 0 {
			sum += quotient(max(0, r.Allocatable-r.Requested)*MaxNodeScore, r.Allocatable) * r.Weight
			weights += r.Weight
		}
	}
	return quotient(sum, max(1, weights))
}

// MostAllocated is the strategy of that name: the weighted mean of 100*requested/allocatable, with 100 for a resource
// whose requests exceed allocatable.
func MostAllocated(resources ...Resource) int64 {
	var sum, weights int64
	for i := range resources {
		if r := &resources[i]; r.Allocatable > 0 {
			sum += quotient(min(r.Requested, r.Allocatable)*MaxNodeScore, r.Allocatable) * r.Weight
			weights += r.Weight
		}
	}
	return quotient(sum, max(1, weights))
}

// quotient returns n/d for n ≥ 0 and d > 0. It divides with 32 bits if possible, which is several times faster on older
// processors.
func quotient(n, d int64) int64 {
	if uint64(n|d) <= math.MaxUint32 {
		return int64(uint32(n) / uint32(d))
	}
	return n / d
}

// BalancedAllocation is the plugin NodeResourcesBalancedAllocation: 100*(1-std), truncated, with
// std the population standard deviation of the fractions requested/allocatable, each at most 1.
// Requested are the stated requests. kube-scheduler skips the plugin for a pod without requests.
func BalancedAllocation(resources ...Resource) int64 {
	var sum float64
	n := 0
	var first, second float64
	for i := range resources {
		f, ok := fraction(&resources[i])
		if !ok {
			continue
		}
		switch n {
		case 0:
			first = f
		case 1:
			second = f
		}
		sum += f
		n++
	}
	var std float64
	switch {
	case n == 2: // the deviation in closed form, which rounds differently
		std = math.Abs((first - second) / 2)
	case n > 2:
		mean := sum / float64(n)
		var squares float64
		for i := range resources {
			if f, ok := fraction(&resources[i]); ok {
				squares += (f - mean) * (f - mean)
			}
		}
		std = math.Sqrt(squares / float64(n))
	}
	return int64((1 - std) * MaxNodeScore)
}

func fraction(r *Resource) (f float64, ok bool) {
	if r.Allocatable <= 0 {
		return 0, false
	}
	return min(float64(r.Requested)/float64(r.Allocatable), 1), true
}

// ShapePoint is one point of the piecewise linear function of RequestedToCapacityRatio.
type ShapePoint struct {
	Utilization int64 // percent, 0 to 100; increasing from point to point
	Score       int64 // 0 to 10, as in a KubeSchedulerConfiguration
}

// maxShapeScore is the highest score of a ShapePoint.
const maxShapeScore = 10

// RequestedToCapacityRatio is the strategy of that name: the piecewise linear function shape maps each resource's
// utilisation in percent to a score, and the result is the weighted mean over the resources whose score is not zero,
// rounded. Shape has at least one point.
func RequestedToCapacityRatio(shape []ShapePoint, resources ...Resource) int64 {
	var sum, weights int64
	for i := range resources {
		r := &resources[i]
		if r.Allocatable <= 0 {
			continue
		}
		utilization := int64(100)
		if r.Requested <= r.Allocatable {
			utilization = r.Requested * 100 / r.Allocatable
		}
		if s := piecewise(shape, utilization); s > 0 {
			sum += s * r.Weight
			weights += r.Weight
		}
	}
	if weights == 0 {
		return 0
	}
	return int64(math.Round(float64(sum) / float64(weights)))
}

// piecewise evaluates shape, with its scores scaled to [MaxNodeScore] and the quotient truncated.
func piecewise(shape []ShapePoint, x int64) int64 {
	const scale = MaxNodeScore / maxShapeScore
	for i, p := range shape {
		if x > p.Utilization {
			continue
		}
		if i == 0 {
			return p.Score * scale
		}
		q := shape[i-1]
		return q.Score*scale + (p.Score-q.Score)*scale*(x-q.Utilization)/(p.Utilization-q.Utilization)
	}
	return shape[len(shape)-1].Score * scale
}
