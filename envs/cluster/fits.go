package cluster

import "fmt"

// Fits reports whether the pod, if it is pending, could be bound to the node now with some choice
// of devices: the node is present and not cordoned, permits the pod's metadata, runs fewer than
// MaxPods pods, and has the resources and enough devices with the share free. It is false for
// indices that do not exist.
func (s *State) Fits(pod, node int32) bool {
	if uint(pod) >= uint(len(s.Pods)) || uint(node) >= uint(len(s.Nodes)) {
		return false
	}
	p, n := &s.Pods[pod], &s.Nodes[node]
	return p.Requests.MilliCPU <= n.Allocatable.MilliCPU-n.Requested.MilliCPU &&
		p.Requests.MemoryBytes <= n.Allocatable.MemoryBytes-n.Requested.MemoryBytes &&
		!n.Unschedulable && !n.Removed && (n.MaxPods == 0 || n.NumPods < n.MaxPods) &&
		s.tab.permits(p.Meta, n.Meta) && (p.GPUs == 0 || s.hasDevices(p, n))
}

// FitMask sets mask[i] to Fits(pod, i), and to false for each i from len(s.Nodes) on. It is faster
// than separate calls of Fits.
func (s *State) FitMask(pod int32, mask []bool) {
	if uint(pod) >= uint(len(s.Pods)) {
		clear(mask)
		return
	}
	p := &s.Pods[pod]
	nodes := s.Nodes[:min(len(mask), len(s.Nodes))]
	clear(mask[len(nodes):])
	mask = mask[:len(nodes)]
	requests, gpus, classes, permitted := p.Requests, p.GPUs, s.tab.classes, s.tab.row(p.Meta)
	for i := range nodes {
		n := &nodes[i]
		mask[i] = requests.MilliCPU <= n.Allocatable.MilliCPU-n.Requested.MilliCPU &&
			requests.MemoryBytes <= n.Allocatable.MemoryBytes-n.Requested.MemoryBytes &&
			!n.Unschedulable && !n.Removed && (n.MaxPods == 0 || n.NumPods < n.MaxPods) &&
			permitted[classes[n.Meta].node] && (gpus == 0 || s.hasDevices(p, n))
	}
}

// hasDevices reports whether enough devices of n have the share free that p requests of each.
func (s *State) hasDevices(p *Pod, n *Node) bool {
	if p.GPUs > n.NumDevices {
		return false
	}
	left := p.GPUs
	for _, d := range s.Devices[n.FirstDevice:][:n.NumDevices] {
		if d.Free >= p.MilliGPU {
			if left--; left <= 0 {
				return true
			}
		}
	}
	return left <= 0
}

// numFitting counts the devices of n that have the share free that p requests of each.
func (s *State) numFitting(p *Pod, n *Node) int32 {
	var count int32
	for _, d := range s.Devices[n.FirstDevice:][:n.NumDevices] {
		if d.Free >= p.MilliGPU {
			count++
		}
	}
	return count
}

// PickDevices returns, for Op.Devices, the fitting devices of lowest index, as many as the pod
// requests; ok is false if the node has too few. It checks nothing but devices.
func (s *State) PickDevices(pod, node int32) (devices uint64, ok bool) {
	p := &s.Pods[pod]
	left := p.GPUs
	for i, d := range s.NodeDevices(node) {
		if left == 0 {
			break
		}
		if d.Free >= p.MilliGPU {
			devices |= 1 << i
			left--
		}
	}
	if left != 0 {
		return 0, false
	}
	return devices, true
}

// Reason returns why the pod does not fit the node, and nil exactly where Fits is true. The
// error wraps ErrNotFound, ErrUnschedulable or ErrInsufficient.
func (s *State) Reason(pod, node int32) error {
	if uint(pod) >= uint(len(s.Pods)) {
		return fmt.Errorf("pod %d, want less than %d: %w", pod, len(s.Pods), ErrNotFound)
	}
	if err := s.checkNode(node); err != nil {
		return err
	}
	p, n := &s.Pods[pod], &s.Nodes[node]
	free := s.Free(node)
	switch {
	case n.Unschedulable:
		return fmt.Errorf("node %s is cordoned, want one that is not: %w", s.NodeName(node), ErrUnschedulable)
	case !s.tab.permits(p.Meta, n.Meta):
		return fmt.Errorf("pod %s on node %s: %s: %w", s.PodName(pod), s.NodeName(node),
			s.tab.metas[n.Meta].refuses(&s.tab.metas[p.Meta]), ErrUnschedulable)
	case p.Requests.MilliCPU > free.MilliCPU || p.Requests.MemoryBytes > free.MemoryBytes:
		return fmt.Errorf("pod %s requests %v, node %s has %v free: %w",
			s.PodName(pod), p.Requests, s.NodeName(node), free, ErrInsufficient)
	case n.MaxPods != 0 && n.NumPods >= n.MaxPods:
		return fmt.Errorf("node %s runs %d pods, want less than its limit of %d: %w",
			s.NodeName(node), n.NumPods, n.MaxPods, ErrInsufficient)
	}
	if have := s.numFitting(p, n); have < p.GPUs {
		return fmt.Errorf("pod %s wants %d thousandths of each of %d GPUs, node %s has that free on %d: %w",
			s.PodName(pod), p.MilliGPU, p.GPUs, s.NodeName(node), have, ErrInsufficient)
	}
	return nil
}
