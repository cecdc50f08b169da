package cluster

import (
	"fmt"
	"math/bits"
)

// Apply carries out op at the time s.Now if [State.Check] permits it. If not, it returns Check's
// error and leaves s as it was. Pods that end release their resources at once. Apply allocates
// nothing once the slices of s have grown.
func (s *State) Apply(op *Op) error {
	if err := s.Check(op); err != nil {
		return err
	}
	switch op.Kind {
	case AddNode:
		s.addNode(op)
	case Cordon:
		s.Nodes[op.Node].Unschedulable = true
	case Uncordon:
		s.Nodes[op.Node].Unschedulable = false
	case RemoveNode:
		s.removeNode(op.Node)
	case AddPod:
		s.Pods = append(s.Pods, Pod{
			Requests: op.Resources, Limits: op.Limits, Created: s.Now, Duration: op.Duration,
			Meta: op.Meta, Node: -1, GPUs: int32(op.GPUs), MilliGPU: op.MilliGPU,
		})
	case Bind:
		s.bind(op)
	case Evict:
		s.end(&s.Pods[op.Pod], Failed)
	case Delete:
		s.end(&s.Pods[op.Pod], Deleted)
	case Resize:
		s.resize(op)
	case SetUsage:
		p := &s.Pods[op.Pod]
		u := &s.Nodes[p.Node].Usage
		u.MilliCPU += op.Resources.MilliCPU - p.Usage.MilliCPU
		u.MemoryBytes += op.Resources.MemoryBytes - p.Usage.MemoryBytes
		p.Usage = op.Resources
	}
	return nil
}

// Complete ends a running pod as Succeeded at the time s.Now. It is for backends, whose
// Advance sets s.Now to the pod's end first. The error wraps ErrNotFound or ErrConflict.
func (s *State) Complete(pod int32) error {
	if err := s.checkPod(pod); err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	p := &s.Pods[pod]
	if p.Phase != Running {
		return fmt.Errorf("complete: pod %s is %v, want Running: %w", s.PodName(pod), p.Phase, ErrConflict)
	}
	s.end(p, Succeeded)
	return nil
}

func (s *State) addNode(op *Op) {
	name := int(s.tab.names[op.Meta])
	for len(s.nodeOf) <= name {
		s.nodeOf = append(s.nodeOf, 0)
	}
	s.nodeOf[name] = int32(len(s.Nodes)) + 1
	s.Nodes = append(s.Nodes, Node{
		Allocatable: op.Resources, Meta: op.Meta, MaxPods: op.MaxPods,
		FirstDevice: int32(len(s.Devices)), NumDevices: int32(op.GPUs), MilliGPU: op.MilliGPU,
	})
	for range op.GPUs {
		s.Devices = append(s.Devices, Device{Capacity: op.MilliGPU, Free: op.MilliGPU})
	}
}

func (s *State) removeNode(node int32) {
	n := &s.Nodes[node]
	for i := 0; n.NumPods > 0; i++ {
		if p := &s.Pods[i]; p.Node == node && p.Phase == Running {
			s.end(p, Failed)
		}
	}
	n.Removed = true
	s.nodeOf[s.tab.names[n.Meta]] = 0
}

func (s *State) bind(op *Op) {
	p, n := &s.Pods[op.Pod], &s.Nodes[op.Node]
	p.Phase, p.Node, p.Devices, p.Started = Running, op.Node, op.Devices, s.Now
	n.NumPods++
	n.Requested.MilliCPU += p.Requests.MilliCPU
	n.Requested.MemoryBytes += p.Requests.MemoryBytes
	for b := p.Devices; b != 0; b &= b - 1 {
		s.Devices[int(n.FirstDevice)+bits.TrailingZeros64(b)].Free -= p.MilliGPU
	}
}

// resize changes a pod's requests and limits and, if the pod runs, what its node has allocated.
func (s *State) resize(op *Op) {
	p := &s.Pods[op.Pod]
	if p.Phase == Running {
		r := &s.Nodes[p.Node].Requested
		r.MilliCPU += op.Resources.MilliCPU - p.Requests.MilliCPU
		r.MemoryBytes += op.Resources.MemoryBytes - p.Requests.MemoryBytes
	}
	p.Requests, p.Limits = op.Resources, op.Limits
}

// end moves a pod to a final phase. A running pod releases its resources.
func (s *State) end(p *Pod, to Phase) {
	if p.Phase == Running {
		n := &s.Nodes[p.Node]
		n.NumPods--
		n.Requested.MilliCPU -= p.Requests.MilliCPU
		n.Requested.MemoryBytes -= p.Requests.MemoryBytes
		n.Usage.MilliCPU -= p.Usage.MilliCPU
		n.Usage.MemoryBytes -= p.Usage.MemoryBytes
		for b := p.Devices; b != 0; b &= b - 1 {
			s.Devices[int(n.FirstDevice)+bits.TrailingZeros64(b)].Free += p.MilliGPU
		}
		p.Usage = Resources{}
	}
	if p.Phase <= Running {
		p.Ended = s.Now
	}
	p.Phase = to
}
