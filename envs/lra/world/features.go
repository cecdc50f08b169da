package world

import (
	"slices"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Features of a node, and of the batch.
const (
	NodeFeatures  = lra.NumApps + 4   // counts, free slots, value, gain, speed
	BatchFeatures = 2*lra.NumApps + 3 // application, remaining, all remaining, used slots, remaining violations
	GainFeature   = lra.NumApps + 2   // by how much the value of the node would grow
)

// PerApp returns a name for each application, with the given prefix.
func PerApp(prefix string) []string {
	var names []string
	for _, app := range lra.Apps {
		names = append(names, prefix+app)
	}
	return names
}

// Rows returns the features of the current nodes, NodeFeatures of each. The caller must not change them.
func (e *Episode) Rows() []float32 { return e.rows }

// Row returns the features of node i if it were in state s.
func (e *Episode) Row(i int, s lra.State) []float32 { return e.kind(i).Row(e.App(), s) }

// Mask returns which nodes permit the container to place. The caller must not change it.
func (e *Episode) Mask() []bool { return e.mask }

// observeBatch writes the features of the batch: the container to place and the remaining ones.
func (e *Episode) observeBatch(dst []float32) {
	clear(dst)
	app := e.App()
	if app != NoApp {
		dst[app] = 1
	}
	free := e.src.Slots - e.Used
	if !e.Online() && free > 0 {
		all := 0
		for a, k := range e.left {
			dst[lra.NumApps+a] = float32(k) / float32(free)
			all += k
		}
		dst[2*lra.NumApps] = float32(all) / float32(free)
	}
	dst[2*lra.NumApps+1] = float32(e.Used) / float32(e.src.Slots)
	if e.budget > 0 {
		dst[2*lra.NumApps+2] = float32(e.budget-e.Violations) / float32(e.budget)
	}
}

// Observe writes the observation of a choice in t, with rows as the features of the nodes. The mask permits children
// with a node that permits the container, or all children if there is none.
func (e *Episode) Observe(t *Tree, rows, obs []float32, mask []bool) {
	nodes := t.fan * NodeFeatures
	if t.levels == 1 {
		copy(obs, rows)
		copy(mask, e.mask)
	} else {
		e.observeChildren(t, rows, obs[:nodes], mask)
	}
	if e.open == 0 || t.level > 0 && !slices.Contains(mask, true) { // the latter after a masked choice
		space.PermitAll(mask)
	}
	e.observeBatch(obs[nodes : nodes+BatchFeatures])
	t.ObserveLevel(obs[nodes:])
}

// observeChildren writes the features of the children of a vertex, and which of them have a node that permits the
// container. Features are means over the child's nodes, except for the gain, the largest among the nodes that permit
// the container.
func (e *Episode) observeChildren(t *Tree, rows, obs []float32, mask []bool) {
	clear(obs)
	width := t.width()
	part := 1 / float32(width)
	for c := range t.fan {
		row := obs[c*NodeFeatures : (c+1)*NodeFeatures]
		ok, gain := false, float32(0)
		for i := t.from + c*width; i < t.from+(c+1)*width; i++ {
			one := rows[i*NodeFeatures : (i+1)*NodeFeatures]
			for f, v := range one {
				row[f] += v * part
			}
			if e.mask[i] {
				if g := one[GainFeature]; !ok || g > gain {
					gain = g
				}
				ok = true
			}
		}
		row[GainFeature] = gain
		mask[c] = ok
	}
}
