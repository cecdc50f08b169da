package gpushare

import "math"

// reserving is FGD that avoids scarce models while a pod fits elsewhere.
type reserving struct {
	*scored
	reserve  *Reserve
	pressure []float64 // by model
}

func newReserving(b *Inventory, r *Reserve) *reserving {
	return &reserving{scored: newScored(b, fgd), reserve: r}
}

// scarcePressure is the pressure from which a model is reserved for pods that need it. It is below 1, since part of the
// free GPUs cannot be used. On generated instances of the training split, 0.4 to 0.7 perform equally well.
const scarcePressure = 0.5

// scarcityCost exceeds the difference of any two scores.
const scarcityCost = 1000

// weigh updates the pressure for a pod of class c.
func (r *reserving) weigh(c *Class) {
	if len(r.pressure) != len(r.b.FreeOf) {
		r.pressure = make([]float64, len(r.b.FreeOf))
	}
	r.reserve.Pressure(r.b, c, r.pressure)
}

// scarce reports whether the model of node i is reserved for other pods.
func (r *reserving) scarce(i int32) bool {
	m := r.b.Nodes[i].Model
	return m >= 0 && r.pressure[m] >= scarcePressure
}

// Choose implements [Placer].
func (r *reserving) Choose(c *Class) (node int32, devices uint64) {
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

// weighing is FGD that weighs the scarcity of a model against fragmentation, and among similar nodes takes the one of
// BestFit.
//
// The weighed terms are columns of the observation, so a node scorer can learn them.
type weighing struct {
	*reserving
	Weights
}

// Weights are the weights of WeightedFGD, with the tags of a baseline's parameters.
type Weights struct {
	Pressure float64 `opt:"pressure" doc:"points of FGD's score, of 100, for a pressure of 1 on the GPU model" range:"5,500,log"`
	BestFit  float64 `opt:"best_fit" doc:"points for each point of BestFit's score" range:"0.003,1,log"`

	// Rollouts do not support KubeResources.
	KubeResources float64 `opt:"kube_resources" doc:"points for each point of KubeResources' score, which spreads" range:"0,0.3"`
}

// SharingWeights are weights for pods that all request at most one GPU, found by trainer tune on training seeds.
var SharingWeights = map[string]any{"pressure": 84.12, "best_fit": 0.07502, "kube_resources": 0.03457}

// DefaultWeights were chosen on generated instances of the training split, where 50 to 200 for pressure and 0.01 to
// 0.06 for BestFit perform nearly equally well.
var DefaultWeights = Weights{Pressure: 50, BestFit: 0.03}

// NewWeightedFGD returns the policy WeightedFGD with other weights.
func NewWeightedFGD(b *Inventory, r *Reserve, w Weights) Placer { return newWeighing(b, r, w) }

func newWeighing(b *Inventory, r *Reserve, w Weights) *weighing {
	return &weighing{newReserving(b, r), w}
}

// Choose implements [Placer].
func (w *weighing) Choose(c *Class) (node int32, devices uint64) {
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

// value returns the value of node i for a pod of class c with entry e of FGD.
func (w *weighing) value(c *Class, i int32, e *entry) float64 {
	fit, _ := BestFit(w.b, c, i)
	v := float64(e.score) + float64(w.BestFit*float64(fit))
	if m := w.b.Nodes[i].Model; m >= 0 {
		v -= float64(w.Pressure * w.pressure[m])
	}
	if w.KubeResources != 0 {
		score, _ := kubeResources(w.b, c, i)
		v += float64(w.KubeResources * float64(score))
	}
	return v
}
