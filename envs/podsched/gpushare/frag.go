package gpushare

import (
	"cmp"
	"slices"
)

// typicalPercent is the percentage of all pods that typical pods cover.
const typicalPercent = 95

// TypicalPod is a frequent kind of pod.
type TypicalPod struct {
	Shape     // without memory, which fragmentation ignores
	Count int // pods of this kind
}

// Kinds groups pods by everything except memory, in no order.
func Kinds(pods []Pod) []TypicalPod {
	counts := map[Shape]int{}
	for i := range pods {
		s := pods[i].Shape
		s.MemoryMiB = 0
		counts[s]++
	}
	kinds := make([]TypicalPod, 0, len(counts))
	for s, n := range counts {
		kinds = append(kinds, TypicalPod{s, n})
	}
	return kinds
}

// TypicalPods returns the most frequent kinds that together cover at least 95 % of the pods, most frequent first. Of
// equal counts, larger requests come first. It sorts kinds, which are those of [Kinds].
//
// Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 3.
func TypicalPods(kinds []TypicalPod) []TypicalPod {
	slices.SortFunc(kinds, func(a, b TypicalPod) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.MilliCPU, a.MilliCPU), cmp.Compare(b.MilliGPU, a.MilliGPU),
			cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(b.Models, a.Models))
	})
	kept, all := 0, TotalCount(kinds)
	for i := range kinds {
		if kept += kinds[i].Count; 100*kept >= typicalPercent*all {
			return kinds[:i+1]
		}
	}
	return kinds
}

// TotalCount returns the number of pods of all kinds.
func TotalCount(kinds []TypicalPod) int {
	all := 0
	for i := range kinds {
		all += kinds[i].Count
	}
	return all
}

// Fragmenter measures fragmentation: F of a node is the expected free share of GPUs that a typical pod cannot use. It
// counts in whole numbers, n·F with n the number of pods that the typical ones cover, so that rounding decides no tie.
//
// FGD's score is truncated. If a placement changes nothing, the score is 50 or 49, depending on the rounding of the
// reference's sums; only such ties are decided by these sums.
type Fragmenter struct {
	total   int64       // n
	demands [][]typical // by model: the typical pods with GPUs that may run on it, most thousandths first
	sums    []typical   // all typical pods, in the order of the reference's sums
}

type typical struct {
	cpu, count int64
	gpus       int32
	milli      int32
	models     uint64
	part       float64 // of all typical pods
}

// NewFragmenter returns the fragmenter for typical pods, out of the given number, and the given models.
func NewFragmenter(pods []TypicalPod, of int, m *ModelTable) *Fragmenter {
	f := &Fragmenter{demands: make([][]typical, len(m.names)), total: int64(TotalCount(pods))}
	for i := range pods {
		p := &pods[i]
		t := typical{p.MilliCPU, int64(p.Count), p.GPUs, p.MilliGPU, m.set(p.Models), float64(p.Count) / float64(of)}
		if int(f.total) < of {
			t.part /= float64(f.total) / float64(of)
		}
		f.sums = append(f.sums, t)
		if p.GPUs == 0 {
			continue // to this pod, all free GPU is fragment
		}
		for model := range f.demands {
			if t.models>>model&1 != 0 {
				f.demands[model] = append(f.demands[model], t)
			}
		}
	}
	for _, d := range f.demands {
		slices.SortStableFunc(d, func(a, b typical) int { return cmp.Compare(b.milli, a.milli) })
	}
	return f
}

// Of returns n·F of a node of a model with cpu left and the free thousandths of its devices in descending order.
//
// For a typical pod that does not fit, all free GPU is fragment; for one that fits, the devices with less free than it
// wants of each.
func (f *Fragmenter) Of(cpu int64, model int8, free []int32) int64 {
	var sum int64
	for _, x := range free {
		sum += int64(x)
	}
	frag := f.total * sum
	if model < 0 || sum == 0 {
		return frag
	}
	var usable int64 // sum of the first n devices, which have enough free
	n := int32(0)
	demands := f.demands[model]
	for i := range demands {
		t := &demands[i]
		for int(n) < len(free) && free[n] >= t.milli {
			usable += int64(free[n])
			n++
		}
		if t.gpus <= n && t.cpu <= cpu {
			frag -= t.count * usable
		}
	}
	return frag
}

// Amount converts a sum of n·F to thousandths of a GPU.
func (f *Fragmenter) Amount(frag int64) float64 {
	if f.total == 0 {
		return 0
	}
	return float64(frag) / float64(f.total)
}

// The kinds of fragment that the reference sums separately.
const (
	lackBoth = iota
	lackGPU
	lackCPU
	cpuPodFits
	cpuPodLacks
	noAccess
	numKinds
)

// reference returns F as the reference computes it: by kinds, in floating point.
func (f *Fragmenter) reference(cpu int64, model int8, free []int32) float64 {
	var whole int64
	for _, x := range free {
		whole += int64(x)
	}
	var sums [numKinds]float64
	for i := range f.sums {
		t := &f.sums[i]
		kind, frag := t.fragment(cpu, model, free, whole)
		sums[kind] += float64(t.part * float64(frag)) // the conversion keeps the product's rounding
	}
	var sum float64
	for _, x := range sums {
		sum += x
	}
	return sum
}

// fragment returns how many of the free thousandths, whole in total, t cannot use.
func (t *typical) fragment(cpu int64, model int8, free []int32, whole int64) (kind int, frag int64) {
	fitsCPU := t.cpu <= cpu
	if t.gpus == 0 {
		if fitsCPU {
			return cpuPodFits, whole
		}
		return cpuPodLacks, whole
	}
	if model < 0 || t.models>>model&1 == 0 {
		return noAccess, whole
	}
	var fitting int32
	var small int64
	for _, x := range free {
		if x >= t.milli {
			fitting++
		} else {
			small += int64(x)
		}
	}
	switch {
	case fitting >= t.gpus && fitsCPU:
		return lackGPU, small
	case fitting >= t.gpus:
		return lackCPU, whole
	case fitsCPU:
		return lackGPU, whole
	}
	return lackBoth, whole
}
