package example

import (
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Observe implements [envs.Task].
func (t *Task) Observe(s *cluster.State, obs []float32, mask []bool) {
	for i := range s.Nodes {
		n, row := &s.Nodes[i], obs[i*nodeFeatures:]
		row[0] = 1 - share(n.Requested.MilliCPU, capacity.MilliCPU)
		row[1] = 1 - share(n.Requested.MemoryBytes, capacity.MemoryBytes)
		row[2] = float32(min(n.NumPods, 1))
	}
	pod := obs[t.opts.Nodes*nodeFeatures:]
	clear(pod)
	s.FitMask(int32(t.next), mask) // clears the mask after the last pod
	if t.next < len(t.requests) {
		r := t.requests[t.next]
		pod[0], pod[1] = share(r.MilliCPU, capacity.MilliCPU), share(r.MemoryBytes, capacity.MemoryBytes)
		pod[2] = float32(len(t.requests)-1-t.next) / float32(len(t.requests))
	}
	if !slices.Contains(mask, true) {
		space.PermitAll(mask)
	}
}

func share(part, whole int64) float32 { return float32(part) / float32(whole) }
