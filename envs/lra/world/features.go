package world

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// Features of a node, and of the batch.
const (
	NodeFeatures  = lra.NumApps + 4   // counts, free slots, value, gain, speed
	BatchFeatures = 2*lra.NumApps + 3 // application, remaining, all remaining, used slots, violations left
	GainFeature   = lra.NumApps + 2   // by how much the value of the node would grow
)

// PerApp returns a name for each application, after prefix.
func PerApp(prefix string) []string {
	var names []string
	for _, app := range lra.Apps {
		names = append(names, prefix+app)
	}
	return names
}

// BatchNames returns the names of the part batch, with the given number of levels of choice.
func BatchNames(levels int) []string {
	names := append(PerApp("container_is_"), PerApp("remaining_")...)
	names = append(names, "remaining", "slots_used", "violations_left")
	if levels > 1 {
		for level := range levels {
			names = append(names, fmt.Sprintf("level_%d", level))
		}
	}
	return names
}

// Rows returns the features of the nodes as they are, NodeFeatures of each. The caller must not
// change them.
func (e *Episode) Rows() []float32 { return e.rows }

// Row returns the features of node i if it were in state s.
func (e *Episode) Row(i int, s lra.State) []float32 { return e.kind(i).Row(e.App(), s) }

// Mask returns which nodes permit the container to place. The caller must not change it.
func (e *Episode) Mask() []bool { return e.mask }

// Open returns how many nodes permit the container to place.
func (e *Episode) Open() int { return e.open }

// ObserveBatch writes the features of the batch: the container to place and those to come.
func (e *Episode) ObserveBatch(dst []float32) {
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
	if e.src.budget > 0 {
		dst[2*lra.NumApps+2] = float32(e.src.budget-e.Violations) / float32(e.src.budget)
	}
}
