package cluster

import (
	"fmt"
	"math/bits"
	"time"
)

// Check reports whether op is legal in s, without changing s. It checks the op's own fields
// ([ErrInvalid], or [ErrNotFound] if metadata, pod or node does not exist), then the phase or name
// ([ErrConflict]), then permission ([ErrUnschedulable]), then resources ([ErrInsufficient]), then
// the devices of a Bind. It ignores fields that the kind does not read.
func (s *State) Check(op *Op) error {
	switch op.Kind {
	case AddNode:
		return s.checkAddNode(op)
	case AddPod:
		return s.checkAddPod(op)
	case Bind:
		return s.checkBind(op)
	case Cordon, Uncordon, RemoveNode:
		return s.checkNode(op.Node)
	case Evict:
		_, err := s.checkPhase(op, Running, Running)
		return err
	case Delete:
		return s.checkPod(op.Pod)
	case Resize:
		return s.checkResize(op)
	case SetUsage:
		return s.checkSetUsage(op)
	}
	return fmt.Errorf("kind %d is none of AddNode (1) to SetUsage (%d): %w", op.Kind, SetUsage, ErrInvalid)
}

// CheckAdvance reports whether the clock may move by d, which must not be negative nor lead
// past [MaxTime]; if not, the error wraps [ErrInvalid].
func (s *State) CheckAdvance(d time.Duration) error {
	if d < 0 || d > MaxTime-s.Now {
		return fmt.Errorf("cannot advance by %v at %v, want 0s to %v: %w", d, s.Now, MaxTime-s.Now, ErrInvalid)
	}
	return nil
}

func (s *State) checkAddNode(op *Op) error {
	if err := s.checkMeta(op.Meta); err != nil {
		return err
	}
	if err := checkAmounts("allocatable", op.Resources); err != nil {
		return err
	}
	if op.MaxPods < 0 {
		return fmt.Errorf("most pods are %d, want 0 (no limit) or more: %w", op.MaxPods, ErrInvalid)
	}
	if err := checkGPUs(op); err != nil {
		return err
	}
	if i := s.holder(s.tab.names[op.Meta]); i >= 0 {
		return fmt.Errorf("name %s is taken by node %d, want another: %w", s.NodeName(i), i, ErrConflict)
	}
	return nil
}

func (s *State) checkAddPod(op *Op) error {
	if err := s.checkMeta(op.Meta); err != nil {
		return err
	}
	if err := checkRequests(op); err != nil {
		return err
	}
	if err := checkGPUs(op); err != nil {
		return err
	}
	if op.Duration < 0 || op.Duration > MaxTime {
		return fmt.Errorf("duration is %v, want 0s (for ever) to %v: %w", op.Duration, MaxTime, ErrInvalid)
	}
	return nil
}

func (s *State) checkBind(op *Op) error {
	p, err := s.checkPhase(op, Pending, Pending)
	if err != nil {
		return err
	}
	if err := s.checkNode(op.Node); err != nil {
		return err
	}
	n := &s.Nodes[op.Node]
	if !s.Fits(op.Pod, op.Node) {
		return s.Reason(op.Pod, op.Node)
	}
	if op.Devices == 0 && p.GPUs == 0 {
		return nil
	}
	if bits.OnesCount64(op.Devices) != int(p.GPUs) || op.Devices>>uint(n.NumDevices) != 0 {
		return fmt.Errorf("devices are %#b, want %d of the %d bits of node %s: %w",
			op.Devices, p.GPUs, n.NumDevices, s.NodeName(op.Node), ErrInvalid)
	}
	devices := s.Devices[n.FirstDevice:][:n.NumDevices]
	for b := op.Devices; b != 0; b &= b - 1 {
		if i := bits.TrailingZeros64(b); devices[i].Free < p.MilliGPU {
			return fmt.Errorf("pod %s wants %d thousandths of device %d of node %s, which has %d free: %w",
				s.PodName(op.Pod), p.MilliGPU, i, s.NodeName(op.Node), devices[i].Free, ErrInsufficient)
		}
	}
	return nil
}

func (s *State) checkResize(op *Op) error {
	p, err := s.checkPhase(op, Pending, Running)
	if err != nil {
		return err
	}
	if err := checkRequests(op); err != nil {
		return err
	}
	if p.Phase != Running {
		return nil
	}
	free := s.Free(p.Node)
	free.MilliCPU += p.Requests.MilliCPU
	free.MemoryBytes += p.Requests.MemoryBytes
	if op.Resources.MilliCPU > free.MilliCPU || op.Resources.MemoryBytes > free.MemoryBytes {
		return fmt.Errorf("pod %s is to request %v, node %s has %v for it: %w",
			s.PodName(op.Pod), op.Resources, s.NodeName(p.Node), free, ErrInsufficient)
	}
	return nil
}

func (s *State) checkSetUsage(op *Op) error {
	p, err := s.checkPhase(op, Running, Running)
	if err != nil {
		return err
	}
	if err := checkAmounts("usage", op.Resources); err != nil {
		return err
	}
	u := &s.Nodes[p.Node].Usage
	if op.Resources.MilliCPU > MaxAmount-u.MilliCPU+p.Usage.MilliCPU ||
		op.Resources.MemoryBytes > MaxAmount-u.MemoryBytes+p.Usage.MemoryBytes {
		return fmt.Errorf("usage %v takes that of node %s over %d: %w", op.Resources, s.NodeName(p.Node), MaxAmount, ErrInvalid)
	}
	return nil
}

func (s *State) checkMeta(i int32) error {
	if uint(i) >= uint(len(s.tab.metas)) {
		return fmt.Errorf("metadata %d, want less than %d: %w", i, len(s.tab.metas), ErrNotFound)
	}
	if s.tab.invalid[i] != "" {
		return fmt.Errorf("metadata %d: %s: %w", i, s.tab.invalid[i], ErrInvalid)
	}
	return nil
}

func (s *State) checkNode(i int32) error {
	if uint(i) >= uint(len(s.Nodes)) {
		return fmt.Errorf("node %d, want less than %d: %w", i, len(s.Nodes), ErrNotFound)
	}
	if s.Nodes[i].Removed {
		return fmt.Errorf("node %d (%s) was removed, want one that is present: %w", i, s.NodeName(i), ErrNotFound)
	}
	return nil
}

func (s *State) checkPod(i int32) error {
	if uint(i) >= uint(len(s.Pods)) {
		return fmt.Errorf("pod %d, want less than %d: %w", i, len(s.Pods), ErrNotFound)
	}
	if s.Pods[i].Phase == Deleted {
		return fmt.Errorf("pod %s was deleted, want one that is present: %w", s.PodName(i), ErrNotFound)
	}
	return nil
}

// checkPhase returns the pod that op names, which must be in phase lo or hi.
func (s *State) checkPhase(op *Op, lo, hi Phase) (*Pod, error) {
	if err := s.checkPod(op.Pod); err != nil {
		return nil, err
	}
	p := &s.Pods[op.Pod]
	switch {
	case p.Phase == lo || p.Phase == hi:
		return p, nil
	case lo == hi:
		return nil, fmt.Errorf("pod %s is %v, want %v: %w", s.PodName(op.Pod), p.Phase, lo, ErrConflict)
	}
	return nil, fmt.Errorf("pod %s is %v, want %v or %v: %w", s.PodName(op.Pod), p.Phase, lo, hi, ErrConflict)
}

func checkAmounts(what string, r Resources) error {
	if r.MilliCPU < 0 || r.MilliCPU > MaxAmount || r.MemoryBytes < 0 || r.MemoryBytes > MaxAmount {
		return fmt.Errorf("%s is %d milli-CPU and %d bytes of memory, want each from 0 to %d: %w",
			what, r.MilliCPU, r.MemoryBytes, MaxAmount, ErrInvalid)
	}
	return nil
}

func checkRequests(op *Op) error {
	if err := checkAmounts("request", op.Resources); err != nil {
		return err
	}
	if err := checkAmounts("limit", op.Limits); err != nil {
		return err
	}
	r, l := op.Resources, op.Limits
	if l.MilliCPU != 0 && l.MilliCPU < r.MilliCPU || l.MemoryBytes != 0 && l.MemoryBytes < r.MemoryBytes {
		return fmt.Errorf("limits %v are below requests %v, want each 0 (no limit) or at least the request: %w", l, r, ErrInvalid)
	}
	return nil
}

func checkGPUs(op *Op) error {
	if op.GPUs > MaxDevices {
		return fmt.Errorf("GPUs are %d, want at most %d: %w", op.GPUs, MaxDevices, ErrInvalid)
	}
	if op.GPUs == 0 && op.MilliGPU != 0 {
		return fmt.Errorf("thousandths are %d of no GPU, want 0: %w", op.MilliGPU, ErrInvalid)
	}
	if op.GPUs > 0 && (op.MilliGPU < 1 || op.MilliGPU > MaxMilliGPU) {
		return fmt.Errorf("thousandths of each GPU are %d, want 1 to %d: %w", op.MilliGPU, MaxMilliGPU, ErrInvalid)
	}
	return nil
}
