package recorded

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Running is a pod that runs when an episode begins.
type Running struct {
	Pod     int    // index in Workload.Pods
	Devices uint64 // its devices on its node
}

// room is the free resources of a node.
type room struct {
	cpu, memory int64
	pods        int32
	gpu         [cluster.MaxDevices]int32
}

// Running returns the pods before pod first that run on a node of w when pod first is created, as far as they fit there
// together. Pods without recorded devices take the first free ones.
func (w *Workload) Running(first int) []Running {
	rooms := make([]room, len(w.Nodes))
	for i := range rooms {
		n := &w.Nodes[i]
		rooms[i] = room{cpu: n.MilliCPU, memory: n.MemoryBytes, pods: n.Pods}
		for d := range n.GPUs {
			rooms[i].gpu[d] = n.MilliGPU
		}
	}
	at := w.Pods[first].Created
	var running []Running
	for _, known := range []bool{true, false} {
		for i := range w.Pods[:first] {
			p := &w.Pods[i]
			if p.Node < 0 || p.Started > at || p.Freed() <= at || known != (bits.OnesCount64(p.Devices) == int(p.GPUs)) {
				continue
			}
			r := &rooms[p.Node]
			devices := p.Devices
			if !known {
				devices = r.free(p)
			}
			if allowed := w.NodeSets[w.Groups[p.Group].NodeSet].Allowed; allowed != nil && !allowed[p.Node] || !r.take(p, devices) {
				continue
			}
			running = append(running, Running{i, devices})
		}
	}
	slices.SortFunc(running, func(a, b Running) int { return cmp.Compare(a.Pod, b.Pod) })
	return running
}

// free returns the first devices that have room for a pod; fewer than it wants if there are no more.
func (r *room) free(p *Pod) (devices uint64) {
	for d := range cluster.MaxDevices {
		if bits.OnesCount64(devices) < int(p.GPUs) && r.gpu[d] >= p.MilliGPU {
			devices |= 1 << d
		}
	}
	return devices
}

// take takes the requests of a pod, and reports whether they were free.
func (r *room) take(p *Pod, devices uint64) bool {
	if p.MilliCPU > r.cpu || p.MemoryBytes > r.memory || r.pods == 0 || bits.OnesCount64(devices) != int(p.GPUs) {
		return false
	}
	for d := devices; d != 0; d &= d - 1 {
		if r.gpu[bits.TrailingZeros64(d)] < p.MilliGPU {
			return false
		}
	}
	r.cpu, r.memory, r.pods = r.cpu-p.MilliCPU, r.memory-p.MemoryBytes, r.pods-1
	for d := devices; d != 0; d &= d - 1 {
		r.gpu[bits.TrailingZeros64(d)] -= p.MilliGPU
	}
	return true
}

// Lifetime returns how long a pod runs from its placement on: its duration, or the end of a cluster's clock if that is
// less; 0 is for ever. Pods from before a recording can be older than a clock shows.
func (p *Pod) Lifetime() time.Duration { return min(p.Duration, cluster.MaxTime) }

// Remaining returns the remaining duration of a pod that runs at a time; 0 is for ever.
func (p *Pod) Remaining(at time.Duration) time.Duration {
	if p.Duration == 0 {
		return 0
	}
	return p.Freed() - at
}
