package envs

import (
	"unsafe"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Sized is implemented by tasks whose options determine the memory of an episode.
type Sized interface {
	// Bytes estimates, before Begin, the peak memory of the task in an episode, including its cluster.
	Bytes() Bytes
}

// Bytes is an estimate of memory.
type Bytes struct {
	Shared int64 // by all tasks of a [Maker]
	Each   int64 // by each of them
}

// Sizes in bytes of objects of a cluster in memory, with the spare capacity of slices, and of the op that made them.
const (
	growth   = 5 // a quarter more, since append enlarges long slices by a quarter
	NodeSize = growth * int64(unsafe.Sizeof(cluster.Node{})+unsafe.Sizeof(cluster.Op{})+metaSize) / 4
	PodSize  = growth * int64(unsafe.Sizeof(cluster.Pod{})) / 4 // deleted pods are kept until the episode's end
	OpSize   = growth * int64(unsafe.Sizeof(cluster.Op{})) / 4
	metaSize = 200 // a node's name and its entry in the table of names
)

// fixedSize is the memory of an environment regardless of its options: its generator, cluster and task.
const fixedSize = 16 << 10

// estimate returns the memory of n environments with a task like t, including the rows of a [Vec]'s batch and of a
// reply that holds it.
func estimate(t Task, n, infos int, mode AutoresetMode) int64 {
	obs, act := t.Spaces()
	row := 4*int64(obs.Size()) + 2*int64(space.MaskSize(act)) + 8*int64(infos) + 8*int64(act.Size())
	if mode == SameStep {
		row *= 2
	}
	b := Bytes{Each: fixedSize + 2*row}
	if s, ok := t.(Sized); ok {
		own := s.Bytes()
		b.Shared, b.Each = own.Shared, b.Each+own.Each
	}
	return b.Shared + int64(n)*b.Each
}

// SliceSize estimates the bytes of a slice of n elements made by append.
func SliceSize[T any](n int) int64 {
	var x T
	return growth * int64(n) * int64(unsafe.Sizeof(x)) / 4
}
