package vpa

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/vpa/corrections"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// Encodings whose actions correct the recommendation of a baseline: quantile_tuned, node_aware.
const (
	EncodingResidual  = corrections.Residual
	EncodingNodeAware = corrections.NodeAware
)

// SharedOptions are the options of k8s/VerticalPodAutoscaler-v1, with the defaults of
// [DefaultSharedOptions].
type SharedOptions struct {
	Options `opt:",squash"`

	Neighbours int     `opt:"neighbours" valid:"0,32" doc:"other pods on the node, 0 to 32"`
	SizeLow    float64 `opt:"neighbour_size_low" valid:"0.01,100" doc:"mean usage of a neighbour over that of the controller's pods: least"`
	SizeHigh   float64 `opt:"neighbour_size_high" doc:"… greatest"`
	BusyCPU    float64 `opt:"busy_cpu" valid:"0,1" doc:"fraction of the history in which demand exceeds the node's CPU: an episode draws it from 0 to this"`
	BusyMemory float64 `opt:"busy_memory" valid:"0,1" doc:"fraction of the history in which demand exceeds the node's memory: likewise"`
	Faults     float64 `opt:"faults_per_day" valid:"0,100" doc:"mean number in a day of faults of the pods: a thread that spins, or a leak of memory, until the container restarts or the fault ends"`
}

// DefaultSharedOptions returns the defaults.
func DefaultSharedOptions() SharedOptions {
	o := SharedOptions{Options: DefaultOptions(), Neighbours: 4, SizeLow: 0.5, SizeHigh: 2, BusyCPU: 0.2, BusyMemory: 0.02, Faults: 0.5}
	o.Mode, o.InitialHigh = pods.ModeInPlaceOrRecreate, 1.5
	o.NodeCPU, o.NodeMemory = 0, 0
	return o
}

// check checks the options.
func (o *SharedOptions) check() error {
	if err := o.Options.check(0, EncodingLog, EncodingResidual, EncodingNodeAware); err != nil {
		return err
	}
	checks := []envs.Check{envs.Between("neighbour_size_high", o.SizeHigh, o.SizeLow, 100)}
	if o.NodeCPU != 0 {
		checks = append(checks, envs.Between("node_cpu_m", o.NodeCPU, 1, mostNode))
	}
	if o.NodeMemory != 0 {
		checks = append(checks, envs.Between("node_memory_mib", o.NodeMemory, 1, mostNode))
	}
	return envs.CheckOptions(o, checks...)
}
