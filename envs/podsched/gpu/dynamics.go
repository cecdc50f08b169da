package gpu

import (
	"context"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// arrive adds the next pod to the cluster.
func (t *Task) arrive(s *cluster.State) int32 {
	pod := int32(t.next)
	a, c := &t.in.Arrivals[pod], t.class(pod)
	t.next++
	t.arrived += c.TotalMilliGPU()
	meta, ok := t.podMetas[c.Models]
	if !ok {
		meta = s.Intern(cluster.Meta{Name: "pod", GPUModels: gpushare.SplitModels(c.Models)})
		t.podMetas[c.Models] = meta
	}
	t.ops = append(t.ops, cluster.Op{
		Kind: cluster.AddPod, Pod: pod, Meta: meta, GPUs: uint8(c.GPUs), MilliGPU: c.MilliGPU, Duration: a.Duration,
		Resources: cluster.Resources{MilliCPU: c.MilliCPU, MemoryBytes: c.MemoryMiB * gpushare.BytesMiB},
	})
	return pod
}

// bind places a pod.
func (t *Task) bind(s *cluster.State, pod, node int32, devices uint64) {
	a := &t.in.Arrivals[pod]
	t.run(s, pod, node, devices)
	t.placedPods++
	wait := (s.Now - a.At).Seconds()
	t.waited += wait
	t.completed += wait + a.Duration.Seconds()
}

// run records that a pod runs on a node.
func (t *Task) run(s *cluster.State, pod, node int32, devices uint64) {
	t.inventory.Place(t.class(pod), node, devices)
	t.ops = append(t.ops, cluster.Op{Kind: cluster.Bind, Pod: pod, Node: node, Devices: devices})
	if d := t.in.Arrivals[pod].Duration; d > 0 && s.Now+d <= cluster.MaxTime { // or else the clock ends before
		t.running.Push(cluster.Departure{At: s.Now + d, Pod: pod, Node: node, Devices: devices})
	}
}

// fail gives up a pod without a retry.
func (t *Task) fail(pod int32) {
	t.failed++
	t.ops = append(t.ops, cluster.Op{Kind: cluster.Delete, Pod: pod})
	t.note()
}

// note adds the current allocation to the curve.
func (t *Task) note() { t.curve.Add(t.arrived, &t.inventory) }

// Plan sets the devices of the pod in case the next action is node, in place of those of option devices. It is for
// baselines that choose devices of their own.
func (t *Task) Plan(node int32, devices uint64) { t.planned, t.devices = node, devices }

// TakePlan implements [envs.Planner].
func (t *Task) TakePlan() envs.Plan {
	if t.planned < 0 {
		return nil
	}
	p := cluster.Op{Kind: cluster.Bind, Node: t.planned, Devices: t.devices}
	t.planned = -1
	return p
}

// LeavePlan implements [envs.Planner].
func (t *Task) LeavePlan(p envs.Plan) { t.Plan(p.(cluster.Op).Node, p.(cluster.Op).Devices) }

// Apply implements [envs.Task]: action i binds the pod to node i; the action after the last node defers it. A pod that
// does not fit its node is given up in time-free dynamics and keeps waiting in timed ones.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	if t.current < 0 { // the episode began without a decision
		return envs.Outcome{Terminated: true}, nil
	}
	pod, node := t.current, int32(action[0])
	t.ops = t.ops[:0]
	before := t.measure()
	switch {
	case int(node) == len(t.nodes) && t.mayDefer():
		t.deferPod(pod)
	case int(node) < len(t.nodes) && t.inventory.Fits(t.class(pod), node):
		devices := t.table.Row(t.class(pod))[node].Devices
		if t.planned == node {
			devices = t.devices
		}
		t.bind(c.State(), pod, node, devices)
		if t.Timed() {
			t.queue = slices.Delete(t.queue, t.pos, t.pos+1)
		} else if t.defers[pod] == 0 {
			t.note()
		}
	case t.Timed():
		t.pos++
	default:
		t.fail(pod)
	}
	t.planned = -1
	after := t.measure()
	if err := t.advance(ctx, c); err != nil {
		return envs.Outcome{}, err
	}
	return envs.Outcome{Reward: t.reward(before, after), Terminated: t.current < 0}, nil
}

// possible reports whether a pod fits some node. It caches the classes that fit none until a pod departs.
func (t *Task) possible(c *gpushare.Class) bool {
	if t.blocked[c.ID] == t.freed+1 {
		return false
	}
	row := t.table.Row(c)
	for i := range row {
		if row[i].Fits {
			return true
		}
	}
	t.blocked[c.ID] = t.freed + 1
	return false
}

// advance advances to the next decision and carries out the ops.
func (t *Task) advance(ctx context.Context, c cluster.Cluster) error {
	if t.Timed() {
		return t.advanceTime(ctx, c)
	}
	for {
		t.current = t.take(c.State())
		if t.current < 0 || t.possible(t.class(t.current)) {
			return c.Apply(ctx, t.ops)
		}
		t.fail(t.current)
	}
}

// take returns the next pod of time-free dynamics: a deferred one that is due, or the next arrival; -1 if none remains.
func (t *Task) take(s *cluster.State) int32 {
	if len(t.queue) > 0 && (t.due[0] <= t.next || t.next == len(t.in.Arrivals)) {
		pod := t.queue[0]
		t.queue, t.due = slices.Delete(t.queue, 0, 1), slices.Delete(t.due, 0, 1)
		return pod
	}
	if t.next < len(t.in.Arrivals) {
		return t.arrive(s)
	}
	return -1
}

// mayDefer reports whether the current pod may be deferred.
func (t *Task) mayDefer() bool {
	switch {
	case !t.opts.Defer || t.current < 0:
		return false
	case t.Timed():
		return t.next < len(t.in.Arrivals) || len(t.running) > 0 // otherwise nothing would ever change
	}
	return int(t.defers[t.current]) < t.opts.MaxDefers
}

func (t *Task) deferPod(pod int32) {
	t.defers[pod] = uint8(min(int(t.defers[pod])+1, math.MaxUint8))
	if t.Timed() {
		t.pos++
		return
	}
	t.queue, t.due = append(t.queue, pod), append(t.due, t.next+t.opts.DeferPods)
	if t.defers[pod] == 1 {
		t.note()
	}
}
