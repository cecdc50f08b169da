package world

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
)

// Features of a node, and of the batch.
const (
	nodeFeatures  = lra.NumApps + 4   // counts, free slots, value, gain, speed
	batchFeatures = 2*lra.NumApps + 3 // application, remaining, all remaining, used slots, violations left
	gainFeature   = lra.NumApps + 2   // by how much the value of the node would grow
	noApp         = lra.NumApps       // the application where there is no container to place
)

// features prepares the rows of the observation of nodes: for each kind of node, application
// and state.
func (s *source) features() {
	var largest float64
	for _, k := range s.kinds {
		k.rows = make([]float32, (lra.NumApps+1)*lra.NumStates*nodeFeatures)
		largest = max(largest, k.plan.Class.Speed)
		for app := range lra.NumApps + 1 {
			for st := range lra.State(lra.NumStates) {
				row := k.row(app, st)
				for a, n := range st.Counts() {
					row[a] = float32(n) / lra.MaxSlots
				}
				row[lra.NumApps] = float32(max(0, k.plan.Class.Slots-st.Total())) / lra.MaxSlots
				row[lra.NumApps+1] = float32(k.plan.Value[st] / lra.MaxSlots)
				if app != noApp && k.plan.Next[st][app] != lra.NoState {
					row[gainFeature] = float32(k.plan.Value[k.plan.Next[st][app]] - k.plan.Value[st])
					k.gains[app][st], k.open[app][st] = row[gainFeature], true
				}
				row[lra.NumApps+3] = float32(k.plan.Class.Speed)
				for _, v := range row[lra.NumApps+1:] {
					largest = max(largest, math.Abs(float64(v)))
				}
			}
		}
	}
	s.bound = float32(math.Ceil(largest))
}

// row returns the features of a node in state s where a container of app is to be placed.
func (k *nodeKind) row(app int, s lra.State) []float32 {
	at := (app*lra.NumStates + int(s)) * nodeFeatures
	return k.rows[at : at+nodeFeatures : at+nodeFeatures]
}

// Observe implements [envs.Task].
func (t *Task) Observe(_ *cluster.State, obs []float32, mask []bool) {
	nodes := t.fan * nodeFeatures
	remapped := t.src.opts.Full == FullRemap && lra.Remap(t, t.x, t.seen, t.to)
	rows := t.rows
	if remapped {
		rows = t.remappedRows()
	}
	if t.levels == 1 {
		copy(obs, rows)
		copy(mask, t.mask)
	} else {
		t.observeChildren(rows, obs[:nodes], mask)
	}
	if t.open == 0 || remapped {
		for i := range mask {
			mask[i] = true
		}
	}
	t.observeBatch(obs[nodes : nodes+batchFeatures])
	if t.levels > 1 {
		level := obs[nodes+batchFeatures:]
		clear(level)
		level[t.level] = 1
	}
}

// remappedRows returns the features of the nodes as remap shows them.
func (t *Task) remappedRows() []float32 {
	for i, s := range t.seen {
		copy(t.shown[i*nodeFeatures:], t.src.kinds[t.src.class[i]].row(t.app(), s))
	}
	return t.shown
}

// observeChildren writes the features of the children of a vertex, and which of them has a node
// that permits the container: the mean of their nodes, but of the gain the largest of those
// that permit it.
func (t *Task) observeChildren(rows, obs []float32, mask []bool) {
	clear(obs)
	width := t.width()
	part := 1 / float32(width)
	for c := range t.fan {
		row := obs[c*nodeFeatures : (c+1)*nodeFeatures]
		ok, gain := false, float32(0)
		for i := t.from + c*width; i < t.from+(c+1)*width; i++ {
			one := rows[i*nodeFeatures : (i+1)*nodeFeatures]
			for f, v := range one {
				row[f] += v * part
			}
			if t.mask[i] {
				if g := one[gainFeature]; !ok || g > gain {
					gain = g
				}
				ok = true
			}
		}
		row[gainFeature] = gain
		mask[c] = ok
	}
}

// observeBatch writes the features of the batch: what is to be placed, and what is to come.
func (t *Task) observeBatch(dst []float32) {
	clear(dst)
	app := t.app()
	if app != noApp {
		dst[app] = 1
	}
	free := t.src.slots - t.used
	if t.heap == nil && free > 0 {
		all := 0
		for a, k := range t.left {
			dst[lra.NumApps+a] = float32(k) / float32(free)
			all += k
		}
		dst[2*lra.NumApps] = float32(all) / float32(free)
	}
	dst[2*lra.NumApps+1] = float32(t.used) / float32(t.src.slots)
	if t.src.budget > 0 {
		dst[2*lra.NumApps+2] = float32(t.src.budget-t.violations) / float32(t.src.budget)
	}
}
