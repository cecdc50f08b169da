package hierarchical

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Task is the environment of k8s/LRAHierarchical-v0. It implements [envs.Task].
type Task struct {
	src *source
	own *pcg.Source
	rng *rand.Rand

	tree   world.Tree
	queue  []uint8
	next   int
	left   lra.Counts // of the batch, after the container to place
	parts  []lra.Counts
	totals []int

	x      planner.Placement // as last filled
	bound  planner.Placement // the bound pods, at the end
	values []float64         // objective of each sub-cluster by the score table, as last filled
	earned float64           // rewards so far
	tally  world.Tally       // of bound

	meta []int32
	ops  []cluster.Op
}

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
)

func newTask(src *source) *Task {
	t := &Task{
		src: src, own: pcg.New(0), tree: src.tree, parts: make([]lra.Counts, src.subclusters), totals: make([]int, src.subclusters),
		values: make([]float64, src.subclusters), x: make(planner.Placement, src.Options.Nodes), bound: make(planner.Placement, src.Options.Nodes),
	}
	t.rng = rand.New(t.own)
	return t
}

// Placement returns the state of each node as last filled, which the caller must not change.
func (t *Task) Placement() planner.Placement { return t.x }

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	return t.tree.Spaces(t.src.Bound, subFeatures)
}

const subSlots = subcluster.Nodes * lra.MaxSlots

// Info implements [envs.InfoWriter]. No container is placed before the end.
func (t *Task) Info(_ *cluster.State, dst []float64) { t.tally.Info(t.src.Source, dst) }

// Bytes implements [envs.Sized].
func (t *Task) Bytes() envs.Bytes { return t.src.Bytes() }
