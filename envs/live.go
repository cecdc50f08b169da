package envs

import (
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
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

// A Continuer is a [Live] task from whose decisions [Continue] makes episodes, for a search.
type Continuer interface {
	Live
	Resampler

	// CanContinue returns nil, or an error that wraps [ErrCannotResample] if the task's options do not allow it.
	CanContinue() error
}

// Continue returns an environment that begins at the decision of task in s: its first action places the pod. Steps
// change neither task nor s. No pods come before [Env.Resample] draws them.
func Continue(spec *Spec, task Continuer, s *cluster.State) *Env {
	e := NewEnv(spec, task, sim.Of(s), 0)
	e.task = task.Clone(e.rng)
	e.takePlan()
	e.info, _ = e.task.(InfoWriter)
	e.running = true
	return e
}
