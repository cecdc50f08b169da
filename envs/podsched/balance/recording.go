package balance

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
	"github.com/kubernasium/kubernasium/envs/podsched/recorded"
)

// loadTrace reads the recording of option trace, whose nodes are those of the environment.
func (src *source) loadTrace() error {
	w, err := recorded.Read(src.opts.Trace)
	if err != nil {
		return err
	}
	o := &src.opts
	if len(w.Nodes) > maxNodes {
		return fmt.Errorf("%w: trace has %d nodes, want at most %d", envs.ErrInvalidOption, len(w.Nodes), maxNodes)
	}
	if w.First() == len(w.Pods) {
		return fmt.Errorf("%w: no pod comes while the recording %s lasts", envs.ErrInvalidOption, o.Trace)
	}
	o.Nodes, o.Resets = len(w.Nodes), 1
	if o.Edges == EdgesRack && o.Nodes < 2 {
		return fmt.Errorf("%w: edges %s, and the recording has one node", envs.ErrInvalidOption, o.Edges)
	}
	src.Config.Nodes, src.Recorded, src.Window = o.Nodes, w, o.Steps
	return nil
}

// playRecording prepares the task for a recording.
func (t *Task) playRecording(w *recorded.Workload) {
	t.members = map[int32][]int32{}
	t.hasExtra = slices.ContainsFunc(w.Pods, func(p recorded.Pod) bool { return p.MilliCPU == 0 || p.MemoryBytes == 0 })
	t.maxReplicas = slices.MaxFunc(w.Groups, func(a, b recorded.Group) int { return a.Pods - b.Pods }).Pods
}

// placeRunning places the pods that run when the episode begins on their recorded nodes, for the rest of their time.
func (t *Task) placeRunning(ctx context.Context, c cluster.Cluster) error {
	w, s := t.src.Recorded, c.State()
	t.active = t.active[:0]
	clear(t.members)
	t.ops = t.ops[:0]
	at := w.Pods[t.in.Begin].Created
	running := w.Running(t.in.Begin)
	for _, r := range running {
		p, spec := &w.Pods[r.Pod], t.in.PodOf(r.Pod)
		pod := int32(len(t.active))
		lifetime := spec.Lifetime
		if lifetime > 0 {
			lifetime = p.Remaining(at)
		}
		t.ops = append(t.ops, t.addPod(s, &spec, lifetime),
			cluster.Op{Kind: cluster.Bind, Pod: pod, Node: p.Node, Devices: r.Devices},
			cluster.Op{Kind: cluster.SetUsage, Pod: pod, Resources: spec.Usage})
		t.active = append(t.active, pod)
		t.members[p.Group] = append(t.members[p.Group], pod)
	}
	if err := c.Apply(ctx, t.ops); err != nil {
		return err
	}
	for pod, r := range running {
		spec := t.in.PodOf(r.Pod)
		t.noteBound(s, &spec, int32(pod), w.Pods[r.Pod].Started-at)
	}
	return nil
}

// until advances the clock to the arrival of a pod.
func (t *Task) until(ctx context.Context, c cluster.Cluster, p *deployments.Pod) error {
	at := p.Recorded.Created - t.src.Recorded.Pods[t.in.Begin].Created
	if d := at - c.State().Now; d > 0 {
		return c.Advance(ctx, d)
	}
	return nil
}

// countRecorded is countPods for a recording, where pods of several deployments interleave. It forgets pods that have
// ended.
func (t *Task) countRecorded(s *cluster.State) {
	if t.pod >= 0 && int(t.pod) < len(s.Pods) && (len(t.active) == 0 || t.active[len(t.active)-1] != t.pod) {
		t.active = append(t.active, t.pod)
		t.members[t.spec.Index] = append(t.members[t.spec.Index], t.pod)
	}
	over := func(i int32) bool { return s.Pods[i].Phase != cluster.Running && s.Pods[i].Phase != cluster.Pending }
	if t.hasExtra {
		clear(t.extra)
		t.active = slices.DeleteFunc(t.active, over)
		for _, i := range t.active {
			if p := &s.Pods[i]; p.Phase == cluster.Running {
				t.extra[p.Node] = t.extra[p.Node].Plus(deployments.Extra(p.Requests))
			}
		}
	}
	clear(t.onNode)
	clear(t.onRack)
	mine := slices.DeleteFunc(t.members[t.spec.Index], over)
	t.members[t.spec.Index] = mine
	for _, i := range mine {
		if p := &s.Pods[i]; p.Phase == cluster.Running {
			t.onNode[p.Node]++
			t.onRack[t.rackOf[p.Node]]++
		}
	}
}
