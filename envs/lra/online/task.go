package online

import (
	"unsafe"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/lookahead"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
	"github.com/kubernasium/kubernasium/envs/lra/world"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Layout of the observation.
const (
	nodeFeatures    = 3*lra.NumApps + 2 // counts, free slots, index, margins before and after
	indexFeature    = lra.NumApps + 1
	beforeFeatures  = lra.NumApps + 2
	afterFeatures   = beforeFeatures + lra.NumApps
	largestFeatures = 2*lra.NumApps + 1                        // application, running, all running
	clusterFeatures = largestFeatures + len(ranks)*lra.NumApps // indices at the ranks
	maxMargin       = 2
)

// ranks are those of the indices that the observation of the cluster has.
var ranks = [3]int{1, 3, prices.Top}

// Task is the environment of k8s/LRAOnline-v0. It implements [envs.Task].
type Task struct {
	src    *source
	ep     *world.Episode
	reward world.Reward
}

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
	_ envs.Limiter    = (*Task)(nil)
)

func newTask(src *source) *Task { return &Task{src: src, ep: world.NewEpisode(src.Source)} }

// MaxEpisodeSteps implements [envs.Limiter].
func (t *Task) MaxEpisodeSteps() int { return t.src.Options.Containers }

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	n := t.src.Options.Nodes
	return space.Dict{Fields: []space.Field{
		{Key: "nodes", Space: space.NewBox(-maxMargin, maxMargin, n, nodeFeatures)},
		{Key: "cluster", Space: space.NewBox(-1, 1, clusterFeatures)},
	}}, space.Discrete{N: n}
}

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) { t.ep.Info(dst) }

// Bytes implements [envs.Sized].
func (t *Task) Bytes() envs.Bytes {
	b := t.src.Bytes()
	b.Shared += int64(unsafe.Sizeof(*t.src.index))
	return b
}

// Placement returns the state of each node, which the caller must not change.
func (t *Task) Placement() planner.Placement { return t.ep.Placement() }

// App returns the application of the container to place, or [world.NoApp].
func (t *Task) App() int { return t.ep.App() }

// Lookahead plays futures of the cluster by the index that the options set.
func (t *Task) Lookahead() *lookahead.Lookahead {
	return lookahead.New(t.src.model(), t.src.index, t.src.Scale, t.src.Slots)
}
