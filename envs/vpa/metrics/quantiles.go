package metrics

import (
	"context"
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Scale returns u times f, truncated to whole units.
func Scale(u cluster.Resources, f float64) cluster.Resources {
	if f == 1 {
		return u
	}
	return cluster.Resources{MilliCPU: int64(float64(u.MilliCPU) * f), MemoryBytes: int64(float64(u.MemoryBytes) * f)}
}

// Mean returns the mean of CPU in millicores and of memory in bytes.
func Mean(usage []cluster.Resources) (mean [2]float64) {
	for _, u := range usage {
		mean[0] += float64(u.MilliCPU) / float64(len(usage))
		mean[1] += float64(u.MemoryBytes) / float64(len(usage))
	}
	return mean
}

// CPUQuantile returns the q-quantile of CPU usage.
func CPUQuantile(ctx context.Context, seen []cluster.Resources, q float64, scratch *[]float64) float64 {
	return quantile(ctx, seen, q, scratch, func(u cluster.Resources) int64 { return u.MilliCPU })
}

// MemoryQuantile returns the q-quantile of memory with linear interpolation.
func MemoryQuantile(ctx context.Context, seen []cluster.Resources, q float64, scratch *[]float64) float64 {
	return quantile(ctx, seen, q, scratch, func(u cluster.Resources) int64 { return u.MemoryBytes })
}

// quantile returns the q-quantile of an amount with linear interpolation, as Prometheus' quantile_over_time does; 0
// without samples. When ctx ends, the result is invalid.
func quantile(ctx context.Context, seen []cluster.Resources, q float64, scratch *[]float64, of func(cluster.Resources) int64) float64 {
	if len(seen) == 0 {
		return 0
	}
	v := (*scratch)[:0]
	for _, u := range seen {
		v = append(v, float64(of(u)))
	}
	*scratch = v
	rank := q * float64(len(v)-1)
	low := int(rank)
	place(ctx, v, low)
	next := v[low]
	if low+1 < len(v) {
		next = slices.Min(v[low+1:])
	}
	return v[low] + (next-v[low])*(rank-float64(low))
}

// place reorders v such that v[k] is as in sorted order, with no greater number before it and no smaller one after it.
// Long histories have tens of millions of samples, and a sort could not stop when ctx ends.
//
// Source: C. A. R. Hoare, "Algorithm 65: Find", Communications of the ACM 4(7), 1961.
func place(ctx context.Context, v []float64, k int) {
	for len(v) > 1 && ctx.Err() == nil {
		pivot := v[len(v)/2]
		i, j := 0, len(v)-1
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			v = v[:j+1]
		case k >= i:
			v, k = v[i:], k-i
		default:
			return
		}
	}
}
