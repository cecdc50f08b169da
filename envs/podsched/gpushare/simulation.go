package gpushare

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
)

// Report is the outcome of a [Simulation].
type Report struct {
	Placements []Placement `json:"placements"` // in the order of placement
	Failed     []Failure   `json:"failed"`
	Usage

	Descheduling *Descheduling `json:"descheduling,omitempty"`
}

// Usage reports the allocated part of a cluster, and how fragmented the rest is.
type Usage struct {
	Pods         int     `json:"pods"` // placed
	Nodes        int     `json:"nodes"`
	UsedNodes    int     `json:"used_nodes"` // with at least one pod
	MilliGPU     int64   `json:"milli_gpu"`
	AllMilliGPU  int64   `json:"allocatable_milli_gpu"`
	MilliCPU     int64   `json:"milli_cpu"`
	AllMilliCPU  int64   `json:"allocatable_milli_cpu"`
	MemoryMiB    int64   `json:"memory_mib"`
	AllMemoryMiB int64   `json:"allocatable_memory_mib"`
	FragMilliGPU float64 `json:"frag_milli_gpu"` // fragmentation F
}

// Placement is a pod on a node.
type Placement struct {
	Pod     string `json:"pod"`
	Node    string `json:"node"`
	Devices []int  `json:"devices,omitempty"`
}

// Failure is a pod that fits no node.
type Failure struct {
	Pod     string         `json:"pod"`
	Reasons map[string]int `json:"reasons"` // number of nodes by the reason that they reject the pod
}

// A Decider chooses nodes in place of the plugins of a profile.
type Decider interface {
	// Decide returns a node for pod q.Pod, one of q.Fitting, and its devices there; 0 selects those of best fit.
	Decide(ctx context.Context, q Question) (node int32, devices uint64, err error)
}

// Question is a pod to place, in a simulation that does not change in the meantime.
type Question struct {
	Pod     int     // index among those given to NewSimulation
	Fitting []int32 // the nodes that it fits, at least one, in order
	Sim     *Simulation
}

// Phase is the state of a pod in a simulation.
type Phase uint8

// Phases of pods.
const (
	Waiting Phase = iota // not yet decided
	Placed
	Failed // it fitted no node
)

// SimulationOptions are the options of [NewSimulation].
type SimulationOptions struct {
	Seed    int64   // of the draws of the policy Random
	Decider Decider // nil: the plugins decide
	Types   []Pod   // future pods are expected to be like these; nil: like the given pods
}

// A Simulation places pods onto nodes one by one, and can evict some again ([Simulation.Deschedule]).
type Simulation struct {
	*scheduler
	decider  Decider
	phase    []Phase
	on       []int32 // by pod: its node
	devices  []uint64
	placed   []int // in the order of placement
	queue    []int // waiting pods in order
	onNode   []int // pods on each node
	moved    *Descheduling
	fittings []int32
}

// NewSimulation returns a simulation in which the bound pods are placed and the others wait. Each is placed once or
// never, in order. Ties between nodes go to the first.
func NewSimulation(nodes []Node, pods []Request, profiles []Profile, o SimulationOptions) (*Simulation, error) {
	s, err := newScheduler(nodes, pods, o.Types, profiles, o.Seed)
	if err != nil {
		return nil, err
	}
	sim := &Simulation{
		scheduler: s, decider: o.Decider, phase: make([]Phase, len(pods)), on: make([]int32, len(pods)),
		devices: make([]uint64, len(pods)), onNode: make([]int, len(nodes)),
	}
	for i := range pods {
		sim.on[i] = -1
		if pods[i].Node < 0 {
			sim.queue = append(sim.queue, i)
			continue
		}
		devices, err := s.bound(i)
		if err != nil {
			return nil, err
		}
		sim.place(i, int32(pods[i].Node), devices)
	}
	return sim, nil
}

// Pending returns the number of waiting pods.
func (s *Simulation) Pending() int { return len(s.queue) }

// Step decides on the next waiting pod, if there is one.
func (s *Simulation) Step(ctx context.Context) error {
	if len(s.queue) == 0 {
		return nil
	}
	i := s.queue[0]
	s.queue = s.queue[1:]
	_, err := s.decide(ctx, i)
	return err
}

// decide places pod i or lets it fail, and reports which.
func (s *Simulation) decide(ctx context.Context, i int) (ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	node, devices := int32(-1), uint64(0)
	if s.decider == nil {
		node, devices = s.placers[s.pods[i].Profile].Choose(s.classes[i])
	} else if node, devices, err = s.ask(ctx, i); err != nil {
		return false, fmt.Errorf("gpu: pod %s: %w", s.pods[i].Name, err)
	}
	if node < 0 {
		s.phase[i] = Failed
		return false, nil
	}
	s.place(i, node, devices)
	return true, nil
}

// ask asks the decider.
func (s *Simulation) ask(ctx context.Context, i int) (node int32, devices uint64, err error) {
	c := s.classes[i]
	s.fittings = s.fittings[:0]
	for n := range s.nodes {
		if s.inventory.Fits(c, int32(n)) {
			s.fittings = append(s.fittings, int32(n))
		}
	}
	if len(s.fittings) == 0 {
		return -1, 0, nil
	}
	node, devices, err = s.decider.Decide(ctx, Question{Pod: i, Fitting: s.fittings, Sim: s})
	switch {
	case err != nil:
		return 0, 0, err
	case !slices.Contains(s.fittings, node):
		return 0, 0, fmt.Errorf("node %d is chosen, on which it does not fit", node)
	case devices == 0:
		return node, s.inventory.Tightest(c, node), nil
	}
	free := s.inventory.DevicesOf(node)
	ok := bits.OnesCount64(devices) == int(c.GPUs) && devices>>len(free) == 0
	for d := devices; ok && d != 0; d &= d - 1 {
		ok = free[lowest(d)] >= c.MilliGPU
	}
	if !ok {
		return 0, 0, fmt.Errorf("devices %v of node %s are chosen, want %d with %d thousandths free", DeviceList(devices), s.nodes[node].Name, c.GPUs, c.MilliGPU)
	}
	return node, devices, nil
}

func (s *Simulation) place(i int, node int32, devices uint64) {
	s.inventory.Place(s.classes[i], node, devices)
	s.phase[i], s.on[i], s.devices[i] = Placed, node, devices
	s.placed = append(s.placed, i)
	s.onNode[node]++
}

// evict evicts a placed pod.
func (s *Simulation) evict(i int) {
	s.inventory.Remove(s.classes[i], s.on[i], s.devices[i])
	s.onNode[s.on[i]]--
	s.phase[i], s.on[i], s.devices[i] = Waiting, -1, 0
	s.placed = slices.DeleteFunc(s.placed, func(p int) bool { return p == i })
}

// Pod returns the phase of pod i, its node, or -1, and its devices there.
func (s *Simulation) Pod(i int) (phase Phase, node int, devices []int) {
	return s.phase[i], int(s.on[i]), DeviceList(s.devices[i])
}

// Free returns the free resources of a node: millicores, MiB, and the thousandths of each device.
func (s *Simulation) Free(node int) (milliCPU, memoryMiB int64, milliGPU []int32) {
	n := &s.inventory.Nodes[node]
	return n.CPU, n.Memory, slices.Clone(s.inventory.DevicesOf(int32(node)))
}

// Usage returns the current usage.
func (s *Simulation) Usage() Usage {
	b := &s.inventory
	u := Usage{
		Pods: len(s.placed), Nodes: len(s.nodes),
		MilliGPU: b.Used.MilliGPU, MilliCPU: b.Used.MilliCPU, MemoryMiB: b.Used.MemoryMiB,
		AllMilliGPU: b.Size.MilliGPU, AllMilliCPU: b.Size.MilliCPU, AllMemoryMiB: b.Size.MemoryMiB,
		FragMilliGPU: b.Frag.Amount(b.Wasted),
	}
	for _, n := range s.onNode {
		if n > 0 {
			u.UsedNodes++
		}
	}
	return u
}

// Report returns the outcome so far. Waiting pods are in neither of its lists.
func (s *Simulation) Report() *Report {
	r := &Report{Placements: []Placement{}, Failed: []Failure{}, Usage: s.Usage(), Descheduling: s.moved}
	for _, i := range s.placed {
		r.Placements = append(r.Placements, Placement{s.pods[i].Name, s.nodes[s.on[i]].Name, DeviceList(s.devices[i])})
	}
	for i, p := range s.phase {
		if p == Failed {
			r.Failed = append(r.Failed, Failure{s.pods[i].Name, s.reasons(i)})
		}
	}
	return r
}
