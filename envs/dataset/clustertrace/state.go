package clustertrace

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// noController is the name that environments give to pods without a controller.
const noController = "pod"

// WriteState writes the history of a simulated cluster from its final state: its nodes, and each pod with its times.
// Pods of one name are replicas, except those named "pod". WriteState writes a pod that was deleted after it ended as
// ended. The state does not hold the earlier requests of a resized pod, nor when a node was added or removed: all nodes
// are written at the beginning, and a removed node is an error.
func WriteState(w *Writer, s *cluster.State) error {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Removed {
			return fmt.Errorf("clustertrace: node %s was removed, and the state does not say when", s.NodeName(int32(i)))
		}
		if err := w.Write(&Event{Kind: AddNode, Info: nodeOf(s, n)}); err != nil {
			return err
		}
	}
	numbers := make([]int32, len(s.Pods)) // in the recording
	for _, m := range lifeEvents(s) {
		at := m.at.Truncate(time.Millisecond)
		e := Event{At: at, Pod: numbers[m.pod]}
		p := &s.Pods[m.pod]
		switch m.kind {
		case AddPod:
			var err error
			if e.Template, err = w.Template(at, templateOf(s, p)); err != nil {
				return err
			}
			e.Name = s.PodName(m.pod)
		case BindPod:
			e.Node = p.Node
			for d := p.Devices; d != 0; d &= d - 1 {
				e.Devices = append(e.Devices, bits.TrailingZeros64(d))
			}
		case FinishPod:
			e.Phase = map[cluster.Phase]Phase{cluster.Succeeded: Succeeded, cluster.Failed: Failed}[p.Phase]
		}
		e.Kind = m.kind
		if err := w.Write(&e); err != nil {
			return err
		}
		if m.kind == AddPod {
			numbers[m.pod] = e.Pod
		}
	}
	return nil
}

func nodeOf(s *cluster.State, n *cluster.Node) *Node {
	meta := s.Meta(n.Meta)
	node := &Node{
		Name: meta.Name, MilliCPU: n.Allocatable.MilliCPU, MemoryBytes: n.Allocatable.MemoryBytes, Pods: n.MaxPods,
		GPUs: n.NumDevices, MilliGPU: n.MilliGPU, GPUModel: meta.GPUModel, Unschedulable: n.Unschedulable,
	}
	for _, l := range meta.Labels {
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[l.Key] = l.Value
	}
	for _, t := range meta.Taints {
		node.Taints = append(node.Taints, Taint{t.Key, t.Value, string(t.Effect)})
	}
	return node
}

func templateOf(s *cluster.State, p *cluster.Pod) *Template {
	meta := s.Meta(p.Meta)
	t := &Template{
		Namespace: "default", MilliCPU: p.Requests.MilliCPU, MemoryBytes: p.Requests.MemoryBytes,
		GPUs: p.GPUs, MilliGPU: p.MilliGPU, GPUModels: meta.GPUModels,
	}
	if meta.Name != noController {
		t.Owner = "ReplicaSet/" + meta.Name
	}
	for _, l := range meta.NodeSelector {
		if t.NodeSelector == nil {
			t.NodeSelector = map[string]string{}
		}
		t.NodeSelector[l.Key] = l.Value
	}
	for _, tol := range meta.Tolerations {
		t.Tolerations = append(t.Tolerations, Toleration{tol.Key, string(tol.Operator), tol.Value, string(tol.Effect)})
	}
	return t
}

// lifeEvent is an event of a pod's life.
type lifeEvent struct {
	at   time.Duration
	kind Kind
	pod  int32
}

// lifeEvents returns the events of all pods in the order of time. At equal times, ends come before arrivals and
// arrivals before bindings, so that a reader knows all replicas of a controller when the first of them is bound.
func lifeEvents(s *cluster.State) []lifeEvent {
	var all []lifeEvent
	for i := range s.Pods {
		p, pod := &s.Pods[i], int32(i)
		all = append(all, lifeEvent{p.Created, AddPod, pod})
		if p.Node >= 0 {
			all = append(all, lifeEvent{p.Started, BindPod, pod})
		}
		switch p.Phase {
		case cluster.Succeeded, cluster.Failed:
			all = append(all, lifeEvent{p.Ended, FinishPod, pod})
		case cluster.Deleted:
			all = append(all, lifeEvent{p.Ended, DeletePod, pod})
		}
	}
	rank := func(m lifeEvent) int {
		switch p := &s.Pods[m.pod]; {
		case m.kind == AddPod:
			return 1
		case m.kind == BindPod:
			return 2
		case p.Ended > p.Created && (p.Node < 0 || p.Ended > p.Started):
			return 0
		}
		return 3 // it ended at the time of its creation or binding
	}
	slices.SortStableFunc(all, func(a, b lifeEvent) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.pod, b.pod))
	})
	return all
}
