package envs

import (
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Live is a [Task] that places pods of a running cluster, outside any episode; [Spec.Live] makes
// one. Attend takes the place of Begin and Apply. After it, Observe writes the observation and the
// policies of baselines decide, as in an episode.
type Live interface {
	Task

	// Attend makes the placement of d's pod the next decision. s has as many nodes as the Task was made for, none of
	// them removed. The Task keeps s until the next Attend and does not change it. Nodes that must not get the pod are
	// cordoned. Attend returns an error for an impossible Decision.
	Attend(s *cluster.State, d Decision) error

	// Devices returns the GPUs that the pod gets on the node, which it must fit.
	Devices(node int32) uint64
}

// Decision is a pod to place.
type Decision struct {
	Pod      int32         // index of the pod, which is pending
	Siblings []int32       // running pods of its controller
	Replicas int           // desired number of pods of its controller, at least 1
	Waited   time.Duration // since its creation
	Racks    []int32       // rack of each node, from 0; nil if unknown

	// Amounts that kube-scheduler's scores add to requests: 100 milliCPU and 200 MiB for each
	// container that requests none, or a pod that requests 0.
	Extra    []cluster.Resources // of the pods on each node; nil for none
	PodExtra cluster.Resources   // of the pod
}
