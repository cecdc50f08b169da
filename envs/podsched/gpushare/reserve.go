package gpushare

import (
	"cmp"
	"math/bits"
	"slices"
)

// Reserve holds the parts of the requested GPUs that can run only on some models, and thus how much of these models to
// keep free.
//
// If pods keep arriving in the same proportions, a part p of the GPUs still free will be requested by pods that run
// only on the models S. A set S is scarce if it has less than that free.
type Reserve struct {
	sets []reservedSet
}

type reservedSet struct {
	models uint64
	part   float64 // of the GPUs requested by all pods, the part of pods constrained to these models or fewer
}

// NewReserve returns the reserve for future pods of the given kinds, in the proportions of their counts.
func NewReserve(pods []TypicalPod, m *ModelTable) *Reserve {
	by := map[uint64]float64{}
	total := 0.0
	for i := range pods {
		gpus := float64(pods[i].TotalMilliGPU() * int64(pods[i].Count))
		total += gpus
		if pods[i].Models != "" && gpus > 0 {
			by[m.set(pods[i].Models)] += gpus
		}
	}
	r := &Reserve{}
	for models := range by {
		part := 0.0
		for other, gpus := range by {
			if other&^models == 0 {
				part += gpus
			}
		}
		r.sets = append(r.sets, reservedSet{models, part / total})
	}
	slices.SortFunc(r.sets, func(a, b reservedSet) int { return cmp.Compare(a.models, b.models) })
	return r
}

// pressure returns the scarcity of the models S: the future requests that only they can serve, over their free GPUs
// less taken. It is 1 if the two are equal.
func (s *reservedSet) pressure(b *Inventory, taken int64) float64 {
	have := -taken
	for m := s.models; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros64(m); i < len(b.FreeOf) {
			have += b.FreeOf[i]
		}
	}
	want := s.part * float64(b.Size.MilliGPU-b.Used.MilliGPU-taken)
	switch {
	case want <= 0:
		return 0
	case float64(have) <= want/MaxPressure:
		return MaxPressure
	}
	return want / float64(have)
}

// MaxPressure bounds the pressure on models that are almost full.
const MaxPressure = 2

// Pressure writes for each model the greatest pressure that a pod of class c increases by running there: among the sets
// with the model that c itself is not constrained to.
func (r *Reserve) Pressure(b *Inventory, c *Class, dst []float64) {
	clear(dst)
	if c.GPUs == 0 {
		return
	}
	for i := range r.sets {
		s := &r.sets[i]
		if c.ModelSet&^s.models == 0 {
			continue // S is reserved for pods like c
		}
		p := s.pressure(b, c.TotalMilliGPU())
		for m := s.models; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros64(m); i < len(dst) {
				dst[i] = max(dst[i], p)
			}
		}
	}
}

// Shortage returns the thousandths of a GPU that the sets lack, summed.
func (r *Reserve) Shortage(b *Inventory) float64 {
	sum := 0.0
	for i := range r.sets {
		s := &r.sets[i]
		var have int64
		for m := s.models; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros64(m); i < len(b.FreeOf) {
				have += b.FreeOf[i]
			}
		}
		sum += max(0, s.part*float64(b.Size.MilliGPU-b.Used.MilliGPU)-float64(have))
	}
	return sum
}
