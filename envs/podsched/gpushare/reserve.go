package gpushare

import (
	"cmp"
	"math/bits"
	"slices"
)

// Reserve knows which part of the requested GPUs can run on some models only, and so how much
// of these to keep free for it.
//
// While pods keep arriving as they did, a part p of what is still free will be asked for by
// pods that run on the models S alone. A set S is scarce if less than that is free on it.
type Reserve struct {
	sets []reservedSet
}

type reservedSet struct {
	models uint64
	part   float64 // of the GPUs requested by all pods, that of pods constrained to these models or fewer
}

// NewReserve returns the reserve for pods to come of the given kinds, in the proportions of their counts.
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

// pressure returns how scarce the models S are: the requests to come for them alone,
// over what they have free less taken. It is 1 where the two are equal.
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

// MaxPressure bounds the pressure on what is almost full.
const MaxPressure = 2

// Pressure writes for each model the greatest pressure that a pod of class c adds to by running
// there: of the sets with the model to which c is not itself constrained.
func (r *Reserve) Pressure(b *Inventory, c *Class, dst []float64) {
	clear(dst)
	if c.GPUs == 0 {
		return
	}
	for i := range r.sets {
		s := &r.sets[i]
		if c.ModelSet&^s.models == 0 {
			continue // c is of those for whom S is kept
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
