package gpuworkload

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// Past returns the classes of the first n pods, in new memory. It omits pods that a running cluster no longer has,
// whose class is -1.
func (in *Instance) Past(n int) []int32 {
	var classes []int32
	for _, a := range in.Arrivals[:n] {
		if a.Class >= 0 {
			classes = append(classes, a.Class)
		}
	}
	return classes
}

// Resample replaces the pods after the first n by others, drawn with replacement from these n, that request milliGPU
// thousandths of a GPU. They stay for ever.
func (in *Instance) Resample(n int, cat *gpushare.Catalogue, milliGPU int64, rng *rand.Rand) {
	in.Arrivals = slices.Clip(in.Arrivals[:n]) // instances may share the rest
	for _, class := range cat.Resample(nil, in.Past(n), milliGPU, rng) {
		in.Arrivals = append(in.Arrivals, Arrival{Class: class})
	}
}
