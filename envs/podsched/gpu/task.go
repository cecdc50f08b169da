package gpu

import (
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Task is the environment of package gpu. It implements [envs.Task].
//
// It mirrors the cluster's free resources in arrays, which it changes by the same ops.
type Task struct {
	src     *source
	opts    *Options
	weights rewardWeights
	seed    uint64 // of the episode
	in      gpuworkload.Instance
	nodes   []gpushare.Node

	inventory gpushare.Inventory
	table     gpushare.Outcomes
	curve     *gpushare.Curve
	watch     views // what observations show of nodes

	next    int     // next arrival
	current int32   // pod to place; -1 at the end
	queue   []int32 // pods deferred or waiting
	due     []int   // of the queue in time-free dynamics: the arrival before which it is offered again
	pos     int     // in the queue of timed dynamics: the pod to place, or the next to check
	defers  []uint8 // by pod
	blocked []int   // by class: t.freed plus one when it was found to fit no node
	freed   int     // departures
	running cluster.Departures

	arrived                 int64 // thousandths of a GPU
	placedPods, failed      int
	waited, completed, busy float64       // seconds of placed pods; seconds until their end; GPU use, in parts of the cluster times seconds
	now                     time.Duration // of timed dynamics, at the last event
	waiting                 float64       // sum of the waiting times of pods, in seconds

	planned  int32  // node of the plan, or -1
	devices  uint64 // of the plan
	metas    []int32
	podMetas map[string]int32
	ops      []cluster.Op

	estimator *gpushare.Rollouts // of the episode's gains; nil before the first
}

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
	_ envs.Renderer   = (*Task)(nil)
	_ envs.Planner    = (*Task)(nil)
	_ envs.Cloner     = (*Task)(nil)
)

func newTask(src *source) *Task {
	t := &Task{src: src, opts: &src.opts, weights: src.opts.weights(), current: -1, podMetas: map[string]int32{}}
	t.table = gpushare.NewOutcomes(&t.inventory, gpushare.DeviceRule(src.opts.Devices))
	t.blocked = make([]int, len(src.Catalogue.Classes))
	t.metas = slices.Repeat([]int32{-1}, len(src.Nodes))
	return t
}

// Timed reports whether the dynamics are timed.
func (t *Task) Timed() bool { return t.opts.Dynamics == DynamicsTimed }

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	n := t.src.Size()
	actions := n
	if t.opts.Defer {
		actions++
	}
	d := space.Dict{Fields: []space.Field{
		{Key: "nodes", Space: space.NewBox(0, 1, n, t.nodeFeatures())},
		{Key: "pod", Space: space.NewBox(0, 1, t.podFeatures())},
	}}
	if t.opts.Edges == EdgesModel {
		d.Fields = append(d.Fields,
			space.Field{Key: "edges", Space: space.NewBox(0, float32(n-1), n, 2)},
			space.Field{Key: "edge_mask", Space: space.NewBox(0, 1, n)})
	}
	return d, space.Discrete{N: actions}
}

// RolloutState is the state that rollouts start from. It shares the task's memory.
type RolloutState struct {
	Inventory *gpushare.Inventory
	Instance  *gpuworkload.Instance
	Catalogue *gpushare.Catalogue
	Class     *gpushare.Class // of the current pod; nil without one
	Requested int64           // thousandths of a GPU requested so far
	Current   int32           // pod to place; -1 if the episode began without a decision, or has ended

	Now       time.Duration // this and what follows are of timed dynamics
	Next, Pos int           // next of the instance's arrivals; index of Current in Queue
	Queue     []int32       // pods that wait
	Running   cluster.Departures
}

// RolloutState returns the current state for rollouts.
func (t *Task) RolloutState() RolloutState {
	var class *gpushare.Class
	if t.current >= 0 {
		class = t.class(t.current)
	}
	return RolloutState{&t.inventory, &t.in, t.src.Catalogue, class, t.arrived, t.current, t.now, t.next, t.pos, t.queue, t.running}
}

// class returns the class of a pod.
func (t *Task) class(pod int32) *gpushare.Class {
	return &t.src.Catalogue.Classes[t.in.Arrivals[pod].Class]
}

// Bytes implements [envs.Sized].
func (t *Task) Bytes() envs.Bytes { return t.src.Bytes() }
