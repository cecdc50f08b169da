package world

import (
	"unsafe"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// Bytes estimates the memory of an episode, for [envs.Sized]: nodes with their features, containers, and the tables
// that episodes share.
func (s *Source) Bytes() envs.Bytes {
	containers := s.Options.Containers
	for _, b := range s.batches {
		containers = max(containers, b.Total())
	}
	if s.Options.Arrivals == ArrivalsOnline {
		containers += int(s.Scale)
	}
	const node = NodeFeatures*4 + 64 // features, mask, state and scratch
	b := envs.Bytes{
		Shared: 2*int64(unsafe.Sizeof(lra.Table{})) + int64(len(s.Class))*8,
		Each:   int64(s.Options.Nodes)*(envs.NodeSize+node) + int64(containers)*(envs.PodSize+2*envs.OpSize),
	}
	for _, k := range s.Kinds {
		b.Shared += int64(unsafe.Sizeof(*k)) + int64(len(k.Forbidding)+2)*int64(unsafe.Sizeof(planner.Model{})) + 4*int64(len(k.rows))
	}
	return b
}
