package placement

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// Observe implements [envs.Task].
func (t *Task) Observe(_ *cluster.State, obs []float32, mask []bool) {
	nodes := t.src.fan * world.NodeFeatures
	remapped := t.remap()
	rows := t.ep.Rows()
	if remapped {
		rows = t.remappedRows()
	}
	if t.src.levels == 1 {
		copy(obs, rows)
		copy(mask, t.ep.Mask())
	} else {
		t.observeChildren(rows, obs[:nodes], mask)
	}
	if t.ep.Open() == 0 || remapped {
		for i := range mask {
			mask[i] = true
		}
	}
	t.ep.ObserveBatch(obs[nodes : nodes+world.BatchFeatures])
	if t.src.levels > 1 {
		level := obs[nodes+world.BatchFeatures:]
		clear(level)
		level[t.level] = 1
	}
}

// remappedRows returns the features of the nodes as remap shows them.
func (t *Task) remappedRows() []float32 {
	for i, s := range t.seen {
		copy(t.shown[i*world.NodeFeatures:], t.ep.Row(i, s))
	}
	return t.shown
}

// observeChildren writes the features of the children of a vertex, and which of them has a node
// that permits the container: the mean of their nodes, but of the gain the largest of those
// that permit it.
func (t *Task) observeChildren(rows, obs []float32, mask []bool) {
	clear(obs)
	width, permits := t.width(), t.ep.Mask()
	part := 1 / float32(width)
	for c := range t.src.fan {
		row := obs[c*world.NodeFeatures : (c+1)*world.NodeFeatures]
		ok, gain := false, float32(0)
		for i := t.from + c*width; i < t.from+(c+1)*width; i++ {
			one := rows[i*world.NodeFeatures : (i+1)*world.NodeFeatures]
			for f, v := range one {
				row[f] += v * part
			}
			if permits[i] {
				if g := one[world.GainFeature]; !ok || g > gain {
					gain = g
				}
				ok = true
			}
		}
		row[world.GainFeature] = gain
		mask[c] = ok
	}
}
