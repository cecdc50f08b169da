package placement

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/world"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Task is the environment of k8s/LRAPlacement-v0 and k8s/LRASubcluster-v0: an agent chooses the node of the next
// container at once, or down a tree with three children per node. It implements [envs.Task].
type Task struct {
	src    *source
	ep     *world.Episode
	tree   world.Tree
	reward world.Reward

	seen  planner.Placement // scratch of remap: the nodes that it shows
	to    []int             // where a choice of a node leads
	shown []float32         // features of seen; nil without remap
}

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
	_ envs.Limiter    = (*Task)(nil)
)

func newTask(src *source) *Task {
	n := src.Options.Nodes
	t := &Task{src: src, ep: world.NewEpisode(src.Source), tree: src.tree, seen: make(planner.Placement, n), to: make([]int, n)}
	if src.remap {
		t.shown = make([]float32, n*world.NodeFeatures)
	}
	return t
}

// Placement returns the state of each node, which the caller must not change.
func (t *Task) Placement() planner.Placement { return t.ep.Placement() }

// MaxEpisodeSteps implements [envs.Limiter]: a batch ends by itself.
func (t *Task) MaxEpisodeSteps() int {
	if !t.ep.Online() {
		return 0
	}
	return t.src.Options.Containers * t.tree.Levels()
}

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	return t.tree.Spaces(t.src.Bound, world.NodeFeatures)
}

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) { t.ep.Info(dst) }

// Bytes implements [envs.Sized].
func (t *Task) Bytes() envs.Bytes { return t.src.Bytes() }
