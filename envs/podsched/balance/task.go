package balance

import (
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
	"github.com/kubernasium/kubernasium/envs/podsched/lifetimes"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
	"github.com/kubernasium/kubernasium/envs/space"
)

// resetPause is the time that the source waits after it has emptied the cluster.
const resetPause = 10 * time.Second

// noPod is the value of Task.pod after the end of an episode.
const noPod = -1

// Task is the environment of package balance. It implements [envs.Task].
type Task struct {
	src       *source
	opts      *Options // of src
	objective objective
	in        *deployments.Stream
	original  *imbalance.OriginalReward // nil with the sound reward

	spec  *deployments.Pod // of the pod to place
	cur   int              // its index in the workload
	pod   int32            // its index in the cluster, or noPod
	first int32            // index in the cluster of its deployment's first replica

	phase     int               // of opts.Resets fillings
	phasePods int               // pods of this phase so far, placed or not
	offered   cluster.Resources // sum of their requests

	onNode, onRack []int32 // running replicas of the current deployment

	// By node, what scores add to the requests of its pods; see extraOf. Rewards and diagnostics do not add it.
	extra       []cluster.Resources
	hasExtra    bool    // extra is above 0 for some pod of the workload
	rackOf      []int32 // of each node
	invCPU      []float64
	invMemory   []float64
	largest     cluster.Resources // node's, in each resource
	shown       []contents        // of each node, when rows was last updated
	rows        [][nodeFeatures]float32
	maxReplicas int               // of a deployment
	capacity    cluster.Resources // of all nodes
	scratch     scratch
	names       featureNames
	forecast    *lifetimes.Forecast // with hints; otherwise nil
	stats       stats

	// For a running cluster: the value that spec points to, and the cluster.
	attended deployments.Pod
	world    *cluster.State

	// For a recording: pods in the cluster that ran when last counted, all and by their group.
	active  []int32
	members map[int32][]int32

	nodeMeta, podMeta []int32
	ops               []cluster.Op
}

// scratch holds intermediate results: one number for each node, or for each rack.
type scratch struct {
	cpu, memory, pods, onNode, cost          []float64
	rackInUse, onRack, rackCPU, rackCapacity []float64
	rackShare                                []float32
}

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
	_ envs.Limiter    = (*Task)(nil)
	_ envs.Renderer   = (*Task)(nil)
	_ envs.Cloner     = (*Task)(nil)
)

func newTask(src *source) *Task {
	o, file, n := &src.opts, src.File, src.opts.Nodes
	t := &Task{
		src: src, opts: o, objective: objectives[o.Objective], in: deployments.NewStream(&src.Config), pod: noPod,
		onNode: make([]int32, n), rackOf: make([]int32, n), extra: make([]cluster.Resources, n),
		invCPU: make([]float64, n), invMemory: make([]float64, n), shown: make([]contents, n), rows: make([][nodeFeatures]float32, n), maxReplicas: o.ReplicasMax,
		names: newFeatureNames(o),
	}
	for _, s := range []*[]float64{&t.scratch.cpu, &t.scratch.memory, &t.scratch.pods, &t.scratch.onNode, &t.scratch.cost} {
		*s = make([]float64, n)
	}
	for i := range n {
		t.rackOf[i] = int32(topology.Rack(i, o.ServersPerRack))
	}
	t.sizeRacks(topology.NumRacks(n, o.ServersPerRack))
	if file != nil {
		t.hasExtra = slices.ContainsFunc(file, func(d deployments.Deployment) bool { return deployments.Extra(d.Requests) != cluster.Resources{} })
		t.maxReplicas = slices.MaxFunc(file, func(a, b deployments.Deployment) int { return a.Replicas - b.Replicas }).Replicas
	}
	mean := seconds(o.Lifetime)
	if src.Recorded != nil {
		mean = src.Recorded.MeanDuration()
		t.playRecording(src.Recorded)
	}
	if o.Hints == HintsLifetime {
		t.forecast = lifetimes.New(n, mean, o.HintError)
	}
	if o.Reward == RewardOriginal {
		t.original = imbalance.NewOriginalReward(n)
	}
	return t
}

// sizeRacks allocates for the given number of racks.
func (t *Task) sizeRacks(racks int) {
	t.onRack = make([]int32, racks)
	t.scratch.rackShare = make([]float32, racks)
	for _, s := range []*[]float64{&t.scratch.rackInUse, &t.scratch.onRack, &t.scratch.rackCPU, &t.scratch.rackCapacity} {
		*s = make([]float64, racks)
	}
}

// MaxEpisodeSteps implements [envs.Limiter].
func (t *Task) MaxEpisodeSteps() int { return t.opts.Steps }

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	n := t.opts.Nodes
	d := space.Dict{Fields: []space.Field{
		{Key: "nodes", Space: space.NewBox(0, 1, n, len(t.names.node))},
		{Key: "pod", Space: space.NewBox(0, 1, len(t.names.pod))},
	}}
	if e := t.numEdges(); e > 0 {
		d.Fields = append(d.Fields,
			space.Field{Key: "edges", Space: space.NewBox(0, float32(n-1), e, 2)},
			space.Field{Key: "edge_mask", Space: space.NewBox(0, 1, e)})
	}
	return d, space.Discrete{N: n}
}
