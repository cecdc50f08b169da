package cluster

import (
	"slices"
	"strconv"
	"time"
)

// Bounds of the fields of ops, beyond which an op is [ErrInvalid]. Within them no sum
// overflows.
const (
	MaxAmount   int64         = 1 << 53 // of a resource, and of the usage of a node: exact as a float64
	MaxDevices                = 64      // GPUs of a node: the bits of Op.Devices
	MaxMilliGPU int32         = 1000    // a whole device
	MaxTime     time.Duration = 1 << 61 // of the clock, and of a pod's duration: 73 years
)

// State is a snapshot of a cluster: plain data that both backends keep by the same rules. Nodes and
// pods get their indices in the order of their AddNode and AddPod; no index is reused before Reset.
// NewState makes a State; the zero State is not usable.
type State struct {
	Now     time.Duration // since the last Reset
	Nodes   []Node
	Pods    []Pod
	Devices []Device // of all nodes, node by node

	tab     *tables
	nodeOf  []int32 // by number of a name: the present node of that name, plus one
	scratch []byte
}

// Node is a machine. In each resource it has Allocatable less Requested left.
type Node struct {
	Allocatable   Resources
	Requested     Resources // sum of its running pods' Requests; at most Allocatable
	Usage         Resources // sum of its running pods' Usage
	Meta          int32     // index for State.Meta
	NumPods       int32     // running pods
	MaxPods       int32     // most running pods; 0 is no limit
	FirstDevice   int32     // its devices are State.Devices[FirstDevice:][:NumDevices]
	NumDevices    int32
	MilliGPU      int32 // capacity of each device, in thousandths
	Unschedulable bool  // cordoned
	Removed       bool  // gone; no op may name it
}

// Device is a GPU, shared in thousandths.
type Device struct {
	Capacity, Free int32 // in thousandths; 0 ≤ Free ≤ Capacity
}

// Pod is a unit of work. A pod that has ended keeps Node and Devices as a record, but holds no resources there.
type Pod struct {
	Requests Resources
	Limits   Resources // 0 is no limit
	Usage    Resources // what it now uses; zero unless it runs
	Devices  uint64    // bit i: it was given device i of its node
	Created  time.Duration
	Started  time.Duration // time of Bind; 0 before it
	Ended    time.Duration // time at which it left Pending and Running; 0 before it
	Duration time.Duration // how long it runs once bound; 0 is for ever
	Meta     int32         // index for State.Meta
	Node     int32         // -1 until it is bound
	GPUs     int32         // number of devices wanted
	MilliGPU int32         // wanted of each of them, in thousandths
	Phase    Phase
}

// EndsAt returns when p completes unless something stops it before; ok is false for a pod that does
// not run or that runs for ever.
func (p *Pod) EndsAt() (at time.Duration, ok bool) {
	return p.Started + p.Duration, p.Phase == Running && p.Duration > 0
}

// Phase is the phase of a pod's life.
type Phase uint8

// The phases of a pod. Pending becomes Running by Bind; the others are final, except that any
// pod can be deleted.
const (
	Pending   Phase = iota
	Running         // bound, and holding its requests on its node
	Succeeded       // ran for its duration
	Failed          // evicted, or lost with its node
	Deleted         // gone; no op may name it
)

var phaseNames = [...]string{"Pending", "Running", "Succeeded", "Failed", "Deleted"}

func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "Phase(" + strconv.Itoa(int(p)) + ")"
}

// NewState returns an empty cluster at time zero.
func NewState() *State { return &State{tab: newTables()} }

// Reset removes all nodes, pods and devices and sets the clock to zero. It keeps the table of
// metadata and the memory of the slices.
func (s *State) Reset() {
	s.Now = 0
	s.Nodes, s.Pods, s.Devices = s.Nodes[:0], s.Pods[:0], s.Devices[:0]
	clear(s.nodeOf)
}

// Clone returns a deep copy of s: no later change of either shows in the other.
func (s *State) Clone() *State {
	dst := new(State)
	s.CloneInto(dst)
	return dst
}

// CloneInto makes dst a deep copy of s, reusing the memory that dst has; dst may be a zero
// State. The table of metadata is shared until one of the two interns something new.
// Several goroutines may clone one State at a time.
func (s *State) CloneInto(dst *State) {
	if s == dst {
		return
	}
	if !s.tab.shared.Load() {
		s.tab.shared.Store(true)
	}
	dst.tab = s.tab
	dst.Now = s.Now
	dst.Nodes = append(dst.Nodes[:0], s.Nodes...)
	dst.Pods = append(dst.Pods[:0], s.Pods...)
	dst.Devices = append(dst.Devices[:0], s.Devices...)
	dst.nodeOf = append(dst.nodeOf[:0], s.nodeOf...)
}

// NodeName returns the name of node i.
func (s *State) NodeName(i int32) string { return s.tab.metas[s.Nodes[i].Meta].Name }

// PodName returns the unique name of pod i: the name of its metadata, a dash and i.
func (s *State) PodName(i int32) string {
	return s.tab.metas[s.Pods[i].Meta].Name + "-" + strconv.Itoa(int(i))
}

// holder returns the present node whose name has number n, or -1.
func (s *State) holder(n int32) int32 {
	if int(n) >= len(s.nodeOf) {
		return -1
	}
	return s.nodeOf[n] - 1
}

// Free returns what node i can still allocate.
func (s *State) Free(i int32) Resources {
	n := &s.Nodes[i]
	return Resources{n.Allocatable.MilliCPU - n.Requested.MilliCPU, n.Allocatable.MemoryBytes - n.Requested.MemoryBytes}
}

// NodeDevices returns the devices of node i, a part of s.Devices.
func (s *State) NodeDevices(i int32) []Device {
	n := &s.Nodes[i]
	return s.Devices[n.FirstDevice:][:n.NumDevices]
}

// Equal reports whether s and other have the same clock, nodes, pods and devices, with equal
// metadata at equal indices. Metadata that no node or pod names does not count.
func (s *State) Equal(other *State) bool {
	if s.Now != other.Now || !slices.Equal(s.Nodes, other.Nodes) || !slices.Equal(s.Pods, other.Pods) ||
		!slices.Equal(s.Devices, other.Devices) {
		return false
	}
	if s.tab == other.tab {
		return true
	}
	for i := range s.Nodes {
		if !s.tab.equalAt(other.tab, s.Nodes[i].Meta) {
			return false
		}
	}
	for i := range s.Pods {
		if !s.tab.equalAt(other.tab, s.Pods[i].Meta) {
			return false
		}
	}
	return true
}

func (t *tables) equalAt(u *tables, i int32) bool {
	a, b := &t.metas[i], &u.metas[i]
	return a.Name == b.Name && a.GPUModel == b.GPUModel &&
		slices.Equal(a.Labels, b.Labels) && slices.Equal(a.NodeSelector, b.NodeSelector) &&
		slices.Equal(a.Taints, b.Taints) && slices.Equal(a.Tolerations, b.Tolerations) &&
		slices.Equal(a.GPUModels, b.GPUModels)
}
