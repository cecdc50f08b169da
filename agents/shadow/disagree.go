package shadow

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Disagreement is a recorded decision for which at least one policy chooses another node in the recorded cluster at
// that time.
type Disagreement struct {
	At      time.Time           `json:"at"`
	Pod     string              `json:"pod"`
	Node    string              `json:"node"` // to which the pod was bound
	Cost    Costs               `json:"cost"` // after the recorded choice
	Choices []DisagreeingChoice `json:"choices"`
}

// DisagreeingChoice is the choice of a policy that disagrees.
type DisagreeingChoice struct {
	Policy string `json:"policy"`
	Node   string `json:"node"`
	Cost   Costs  `json:"cost"`
}

// Costs are metrics of the recorded cluster just after a choice, in percent.
type Costs struct {
	Imbalance     Number  `json:"imbalance"`
	Fragmentation *Number `json:"fragmentation,omitempty"` // nil without GPUs
}

// maxDisagreements bounds the list in a report.
const maxDisagreements = 500

// disagreements counts all disagreements and keeps those with the greatest differences in cost.
type disagreements struct {
	number int
	kept   []Disagreement
}

func (d *disagreements) add(one Disagreement) {
	d.number++
	if d.kept = append(d.kept, one); len(d.kept) >= 2*maxDisagreements {
		d.trim()
	}
}

// trim drops those with the smallest difference in cost, the later of equals. The others keep their order.
func (d *disagreements) trim() {
	if len(d.kept) <= maxDisagreements {
		return
	}
	order := make([]int, len(d.kept))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d.kept[b].difference(), d.kept[a].difference()) })
	order = order[:maxDisagreements]
	slices.Sort(order)
	kept := make([]Disagreement, 0, 2*maxDisagreements)
	for _, i := range order {
		kept = append(kept, d.kept[i])
	}
	d.kept = kept
}

// worst returns the disagreements kept, in the order of the recording; the list is never nil.
func (d *disagreements) worst() []Disagreement {
	d.trim()
	return append([]Disagreement{}, d.kept...)
}

// difference returns the largest difference in imbalance or fragmentation between a policy's choice and the recorded
// one.
func (d *Disagreement) difference() float64 {
	most := 0.0
	for _, c := range d.Choices {
		most = max(most, math.Abs(float64(c.Cost.Imbalance-d.Cost.Imbalance)))
		if c.Cost.Fragmentation != nil && d.Cost.Fragmentation != nil {
			most = max(most, math.Abs(float64(*c.Cost.Fragmentation-*d.Cost.Fragmentation)))
		}
	}
	return most
}

// costs returns the metrics of the cluster as if a waiting pod ran on a node.
func (w *world) costs(p, n int32, devices uint64) Costs {
	t, node := w.template(p), &w.nodes[n]
	if node.info == nil {
		return Costs{Imbalance: Number(math.NaN())}
	}
	before := w.share[n]
	w.share[n] = share{percent(node.used.MilliCPU+t.MilliCPU, node.info.MilliCPU), percent(node.used.MemoryBytes+t.MemoryBytes, node.info.MemoryBytes)}
	c := Costs{Imbalance: Number(w.imbalance())}
	w.share[n] = before
	if w.history.fragments == nil || w.sums.allGPU == 0 {
		return c
	}
	if devices, ok := w.devices(w.pods[p].slot, node.index, devices); ok {
		class := &w.catalogue.Classes[w.classes[w.pods[p].template]]
		w.fragments.Place(class, node.index, devices)
		v := Number(100 * w.history.fragments.Amount(w.fragments.Wasted) / float64(w.sums.allGPU))
		w.fragments.Remove(class, node.index, devices)
		c.Fragmentation = &v
	}
	return c
}
