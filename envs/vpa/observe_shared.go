package vpa

import (
	"github.com/kubernasium/kubernasium/envs/vpa/node"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// Additional elements of the observation of a shared node.
const (
	obsShared = 12
	obsLoad   = 1.25 // load of the node that maps to 1
	obsRoom   = 4    // room on the node over the pod's request that maps to 1
)

// observeShared writes the elements of a shared node.
func (t *Task) observeShared(s *pods.SharedNode, obs []float32) {
	for r := range s.Load {
		obs[r] = part(s.Load[r].Last(), obsLoad)
		obs[2+r] = part(s.Load[r].Max(), obsLoad)
		obs[4+r] = part(s.Load[r].Mean(), obsLoad)
	}
	size := s.Drawn.Allocatable()
	cpu, mem := float64(size.MilliCPU), float64(size.MemoryBytes)
	for k := range s.Pods {
		cpu -= float64(s.Pods[k].Requests.MilliCPU)
		mem -= float64(s.Pods[k].Requests.MemoryBytes)
	}
	first := &t.dynamics.Pods[0]
	n := float64(s.Own)
	obs[6] = part(cpu, obsRoom*n*max(float64(first.Requests.MilliCPU), 1))
	obs[7] = part(mem, obsRoom*n*max(float64(first.Requests.MemoryBytes), 1))
	obs[8] = part(s.Stats.ThrottledCPU+s.Stats.DownCPU, s.Stats.DemandCPU)
	obs[9] = part(t.dynamics.Last.Harm, t.ledger.Norm*t.Interval().Hours())
	obs[10] = 0
	if t.now() < s.Pressure {
		obs[10] = 1
	}
	obs[11] = float32(node.Class(first.Requests, first.Limits)) / float32(node.Guaranteed)
}

var sharedNames = [obsShared]string{
	"node_cpu", "node_memory", "node_cpu_peak_hour", "node_memory_peak_hour", "node_cpu_mean_hour", "node_memory_mean_hour",
	"room_cpu", "room_memory", "neighbours_unserved", "harm", "memory_pressure", "qos_class",
}
