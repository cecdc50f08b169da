package hierarchical

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/space"
)

// subFeatures is the number of features of a sub-cluster, or of a part of the tree: counts,
// free slots, value.
const subFeatures = lra.NumApps + 2

// Observe implements [envs.Task].
func (t *Task) Observe(_ *cluster.State, obs []float32, mask []bool) {
	clear(obs)
	first, width := t.tree.Children()
	fan, end := t.tree.Fan(), t.next == len(t.queue)
	permitted := false
	for c := range fan {
		row := obs[c*subFeatures : (c+1)*subFeatures]
		free := 0
		for i := first + c*width; i < first+(c+1)*width; i++ {
			for a, k := range t.parts[i] {
				row[a] += float32(k) / float32(subSlots*width)
			}
			free += subSlots - t.totals[i]
			row[lra.NumApps+1] += float32(t.values[i] / float64(subSlots*width))
		}
		row[lra.NumApps] = float32(free) / float32(subSlots*width)
		mask[c] = free > 0 && !end
		permitted = permitted || mask[c]
	}
	if !permitted {
		space.PermitAll(mask)
	}
	batch := obs[fan*subFeatures:]
	used := 0
	for _, n := range t.totals {
		used += n
	}
	if free := t.src.Slots - used; !end {
		batch[t.queue[t.next]] = 1
		for a, k := range t.left {
			batch[lra.NumApps+a] = float32(k) / float32(free)
		}
		batch[2*lra.NumApps] = float32(t.left.Total()) / float32(free)
	}
	batch[2*lra.NumApps+1] = float32(used) / float32(t.src.Slots)
	t.tree.ObserveLevel(batch)
}
