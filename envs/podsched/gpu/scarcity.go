package gpu

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// reserve knows which part of the requested GPUs can run on some models only, and so how much
// of these to keep free for it.
//
// While pods keep arriving as they did, a part p of what is still free will be asked for by
// pods that run on the models S alone. A set S is scarce if less than that is free on it.
type reserve struct {
	sets []reservedSet
}

type reservedSet struct {
	models uint64
	part   float64 // of the GPUs requested by all pods, that of pods constrained to these models or fewer
}

// newReserve takes what pods request as what is to come.
func newReserve(pods []Pod, m *modelTable) *reserve {
	by := map[uint64]float64{}
	total := 0.0
	for i := range pods {
		gpus := float64(pods[i].TotalMilliGPU())
		total += gpus
		if pods[i].Models != "" && gpus > 0 {
			by[m.set(pods[i].Models)] += gpus
		}
	}
	r := &reserve{}
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

// pressure returns how scarce the models S are: what is expected to be asked of them alone,
// over what they have free less taken. It is 1 where the two are equal.
func (s *reservedSet) pressure(b *board, taken int64) float64 {
	have := -taken
	for m := s.models; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros64(m); i < len(b.freeOf) {
			have += b.freeOf[i]
		}
	}
	want := s.part * float64(b.size.milliGPU-b.used.milliGPU-taken)
	switch {
	case want <= 0:
		return 0
	case float64(have) <= want/maxPressure:
		return maxPressure
	}
	return want / float64(have)
}

// maxPressure bounds the pressure on what is almost full.
const maxPressure = 2

// pressure writes for each model the greatest pressure that a pod of class c adds to by running
// there: of the sets with the model to which c is not itself constrained.
func (r *reserve) pressure(b *board, c *class, dst []float64) {
	clear(dst)
	if c.GPUs == 0 {
		return
	}
	for i := range r.sets {
		s := &r.sets[i]
		if c.models&^s.models == 0 {
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

// shortage returns the thousandths of a GPU that the sets lack, summed.
func (r *reserve) shortage(b *board) float64 {
	sum := 0.0
	for i := range r.sets {
		s := &r.sets[i]
		var have int64
		for m := s.models; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros64(m); i < len(b.freeOf) {
				have += b.freeOf[i]
			}
		}
		sum += max(0, s.part*float64(b.size.milliGPU-b.used.milliGPU)-float64(have))
	}
	return sum
}

// reserving is FGD that keeps off models that become scarce, while a pod fits elsewhere.
type reserving struct {
	*scored
	reserve  *reserve
	pressure []float64 // by model
}

func newReserving(b *board, r *reserve) *reserving {
	return &reserving{scored: newScored(b, fgd), reserve: r}
}

// scarcePressure is the pressure from which a model is kept for those that need it. Part of what
// is free cannot be used, so that it is less than 1; on generated instances of the training
// split 0.4 to 0.7 do equally well.
const scarcePressure = 0.5

// scarcityCost is more than scores differ.
const scarcityCost = 1000

// weigh looks at what is scarce to a pod of class c.
func (r *reserving) weigh(c *class) {
	if len(r.pressure) != len(r.b.freeOf) {
		r.pressure = make([]float64, len(r.b.freeOf))
	}
	r.reserve.pressure(r.b, c, r.pressure)
}

// scarce reports whether the model of node i is kept for others.
func (r *reserving) scarce(i int32) bool {
	m := r.b.nodes[i].model
	return m >= 0 && r.pressure[m] >= scarcePressure
}

func (r *reserving) choose(c *class) (node int32, devices uint64) {
	r.weigh(c)
	node = -1
	best := int64(math.MinInt64)
	row := r.row(c)
	for i := range row {
		s := row[i].score
		if s == noFit {
			continue
		}
		if r.scarce(int32(i)) {
			s -= scarcityCost
		}
		if s > best {
			node, best = int32(i), s
		}
	}
	if node < 0 {
		return -1, 0
	}
	return node, row[node].devices
}

// weighing is FGD that weighs how scarce a model is against fragmentation, and of nodes that do
// not differ much takes the one that BestFit would.
//
// The weights are in points of FGD's score, of 100. They were chosen on generated instances of
// the training split, where 50 to 200 of pressure and 0.01 to 0.06 of BestFit do nearly equally
// well. What is weighed are columns of the observation, so that a node scorer can learn it.
type weighing struct {
	*reserving
}

const (
	pressureWeight = 50   // for a pressure of 1
	bestFitWeight  = 0.03 // for each point of BestFit's
)

func newWeighing(b *board, r *reserve) *weighing { return &weighing{newReserving(b, r)} }

func (w *weighing) choose(c *class) (node int32, devices uint64) {
	w.weigh(c)
	node = -1
	best := math.Inf(-1)
	row := w.row(c)
	for i := range row {
		if row[i].score == noFit {
			continue
		}
		if v := w.value(c, int32(i), &row[i]); v > best {
			node, best = int32(i), v
		}
	}
	if node < 0 {
		return -1, 0
	}
	return node, row[node].devices
}

// value returns what node i is worth to a pod of class c, to which FGD gives the entry e.
func (w *weighing) value(c *class, i int32, e *entry) float64 {
	fit, _ := bestFit(w.b, c, i)
	v := float64(e.score) + float64(bestFitWeight*float64(fit))
	if m := w.b.nodes[i].model; m >= 0 {
		v -= float64(pressureWeight * w.pressure[m])
	}
	return v
}
