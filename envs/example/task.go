package example

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Task is the environment of example/Packing-v0.
type Task struct {
	opts     Options
	requests []cluster.Resources // of all pods of the episode
	next     int                 // the pod to place
	used     int                 // nodes that run a pod
	pending  int                 // pods that stay pending

	nodeMeta []int32 // of each node; the cluster keeps it between episodes
	podMeta  int32
	ops      []cluster.Op // scratch
}

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
)

func newTask(o Options) *Task { return &Task{opts: o} }

// Numbers of features.
const (
	nodeFeatures = 3
	podFeatures  = 3
)

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	return space.Dict{Fields: []space.Field{
		{Key: "nodes", Space: space.NewBox(0, 1, t.opts.Nodes, nodeFeatures)},
		{Key: "pod", Space: space.NewBox(0, 1, podFeatures)},
	}}, space.Discrete{N: t.opts.Nodes}
}

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) {
	dst[0], dst[1] = float64(t.used), float64(t.pending)
}
