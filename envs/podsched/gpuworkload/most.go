package gpuworkload

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// Bytes estimates the memory of an episode, for [envs.Sized]: nodes with the outcomes of each class, pods, and the
// lists that episodes share.
func (s *Source) Bytes() envs.Bytes {
	const (
		node    = 400 // inventory, views and features
		outcome = 32  // of a class on a node
		pod     = 24 + 1 + 4
	)
	nodes, classes, pods := int64(s.Size()), int64(len(s.Catalogue.Classes)), int64(s.MostPods())
	return envs.Bytes{
		Shared: int64(len(s.Nodes))*200 + 24*int64(s.Known()),
		Each:   nodes*(envs.NodeSize+node) + nodes*classes*outcome + classes*16 + pods*(envs.PodSize+pod*5/4),
	}
}

// Known returns the number of pods in lists and recordings.
func (s *Source) Known() int {
	n := 0
	for i := range s.lists {
		n += len(s.lists[i].classes)
	}
	if s.recorded != nil {
		n += len(s.recorded.arrivals)
	}
	return n
}

// MostPods estimates the number of pods of an episode: those of timed dynamics, or as many as request GPUs up to the
// load, with a quarter of the mean request of a generated pod with GPUs.
func (s *Source) MostPods() int {
	switch {
	case s.config.Timed:
		return s.config.NumPods
	case s.fixed != nil:
		return len(s.fixed.Arrivals)
	case s.recorded != nil:
		return s.Known()
	}
	gpus := 0
	for _, n := range s.Nodes {
		gpus += n.GPUs
	}
	target := s.config.LoadEnd * float64(gpus) * float64(s.Size()) / float64(len(s.Nodes)) * gpushare.WholeGPU
	l := s.config.Law
	mean := (1 - l.CPUOnly) * (l.Sharing*sharedMean + (1-l.Sharing)*gpushare.WholeGPU)
	if len(s.lists) > 0 {
		mean = sharedMean
	}
	return int(2 * target / mean)
}

// sharedMean is about the mean request of a pod that shares a GPU, in thousandths.
const sharedMean = 400
