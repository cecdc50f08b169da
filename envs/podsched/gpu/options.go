package gpu

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
)

// Values of the options of [Options].
const (
	DynamicsTimeFree = "time_free" // pods arrive one after the other and stay; each is placed or fails, without a retry
	DynamicsTimed    = "timed"     // pods arrive in time, wait until they are placed, run, and depart

	SplitTrain   = "train"
	SplitHeldOut = "heldout"

	RewardAllocation    = "allocation"
	RewardFragmentation = "fragmentation"
	RewardScarcity      = "scarcity"
	RewardWaiting       = "waiting"
	RewardWeighted      = "weighted"

	DevicesFGD   = "fgd"   // the device that FGD takes
	DevicesBest  = "best"  // the one with the least free that fits
	DevicesFirst = "first" // the first that fits

	EdgesNone  = "none"
	EdgesModel = "model" // nodes of one GPU model form a ring
)

// Options are the options of all versions, with the defaults of [DefaultOptions].
type Options struct {
	Nodes         string   `opt:"nodes,file" doc:"file of the node list; empty takes a cluster composed as the published one"`
	Pods          []string `opt:"pods,file" doc:"files of pod lists, of which each episode draws one; empty generates pods"`
	CPUPerGPU     float64  `opt:"cpu_per_gpu" valid:"0,1000" doc:"cores of a node for each of its GPUs, where the trace gives none (Philly, nodes of Helios); 0 takes 3 and 6"`
	MemoryPerGPU  float64  `opt:"memory_per_gpu" valid:"0,10000" doc:"GiB of a node for each of its GPUs, where the trace gives none (Philly, Helios, Alibaba 2026); 0 takes 62.5, 47 and 64"`
	Trace         string   `opt:"trace,file" doc:"file with a recording of a cluster, whose nodes, all of them, and pods are played in place of lists or drawn ones: from a drawn pod on, with their times and durations in timed dynamics"`
	ReferenceSeed int      `opt:"reference_seed" valid:"-1,2147483647" doc:"plays the reference's workload of this random seed on all nodes; -1 draws a workload for each episode"`
	Split         string   `opt:"split" valid:"train|heldout" doc:"train, or heldout: episodes that no training sees"`
	NumNodes      int      `opt:"num_nodes" valid:"0,1e5" doc:"nodes drawn for each episode; 0 takes all"`

	LoadStart float64 `opt:"load_start" doc:"GPUs requested, over those of the nodes, by pods that are placed before the episode begins"`
	LoadEnd   float64 `opt:"load_end" valid:"0.01,3" doc:"GPUs requested, over those of the nodes, by the pods of a time-free episode"`
	Prefill   string  `opt:"prefill" doc:"baseline that places the pods before load_start"`

	ConstrainedLow  float64 `opt:"constrained_low" doc:"least part of the generated GPU pods that are bound to GPU models"`
	ConstrainedHigh float64 `opt:"constrained_high" valid:"0,1" doc:"greatest part; each episode draws one between"`
	CPUOnly         float64 `opt:"cpu_only" valid:"0,0.99" doc:"part of the generated pods without GPUs"`
	Sharing         float64 `opt:"sharing" valid:"0,1" doc:"part of the generated GPU pods that share a GPU"`
	MultiGPU        float64 `opt:"multi_gpu" doc:"part of the generated GPU pods with two or more GPUs"`

	Dynamics    string  `opt:"dynamics" valid:"time_free|timed" doc:"time_free, or timed with arrivals and departures"`
	NumPods     int     `opt:"num_pods" valid:"1,1e6" doc:"pods of a timed episode"`
	Load        float64 `opt:"load" valid:"0.01,10" doc:"GPU time requested by the pods of a timed episode, over what the nodes have while they arrive"`
	MaxDuration float64 `opt:"max_duration" valid:"1,1e9" doc:"most seconds that a pod of a timed episode runs"`

	Defer     bool `opt:"defer" doc:"adds an action that puts the pod off"`
	MaxDefers int  `opt:"max_defers" valid:"1,100" doc:"how often a pod can be put off in a time-free episode"`
	DeferPods int  `opt:"defer_pods" valid:"1,1e6" doc:"arrivals after which a pod that was put off is offered again"`

	Reward         string  `opt:"reward" valid:"allocation|fragmentation|scarcity|waiting|weighted" doc:"allocation, fragmentation, scarcity, waiting or weighted"`
	AllocWeight    float64 `opt:"alloc_weight" valid:"-1e6,1e6" doc:"weight of allocation in the weighted reward"`
	FragWeight     float64 `opt:"frag_weight" valid:"-1e6,1e6" doc:"weight of fragmentation"`
	ScarcityWeight float64 `opt:"scarcity_weight" valid:"-1e6,1e6" doc:"weight of scarcity"`
	WaitingWeight  float64 `opt:"waiting_weight" valid:"-1e6,1e6" doc:"weight of waiting"`

	Devices   string `opt:"devices" valid:"fgd|best|first" doc:"fgd, best or first: which device of the node a pod takes that shares one"`
	Scores    bool   `opt:"scores" doc:"shows the scores of FGD and BestFit in the observation"`
	WholeGPUs bool   `opt:"whole_gpus" doc:"shows how many GPUs are wholly free: of nodes, of their models and in the cluster"`
	Edges     string `opt:"edges" valid:"none|model" doc:"none, or model: the observation has a graph in which the nodes of each GPU model form a ring"`
}

// DefaultOptions returns the defaults of versions 0 and 1.
func DefaultOptions() Options {
	law := gpuworkload.PublishedLaw()
	return Options{
		ReferenceSeed: -1, Split: SplitTrain, NumNodes: 64, LoadEnd: gpushare.DefaultRatio, Prefill: "FGD",
		ConstrainedLow: law.ConstrainedLow, ConstrainedHigh: law.ConstrainedHigh, CPUOnly: law.CPUOnly, Sharing: law.Sharing, MultiGPU: law.MultiGPU,
		Dynamics: DynamicsTimeFree, NumPods: 2000, Load: 0.9, MaxDuration: 3600,
		MaxDefers: 3, DeferPods: 10,
		Reward: RewardAllocation, AllocWeight: 1, FragWeight: 0.1, ScarcityWeight: 0.1,
		Devices: DevicesFGD, Scores: true, Edges: EdgesNone,
	}
}

// wholeGPUOptions returns the defaults of version 2.
func wholeGPUOptions() Options {
	o := DefaultOptions()
	o.WholeGPUs = true
	return o
}

// check reports the first option that is out of its range.
func (o *Options) check() error {
	if err := envs.CheckOptions(o,
		envs.OneOf("prefill", o.Prefill, gpushare.PolicyNames()...),
		envs.Between("load_start", o.LoadStart, 0, o.LoadEnd),
		envs.Between("constrained_low", o.ConstrainedLow, 0, o.ConstrainedHigh),
		envs.Between("multi_gpu", o.MultiGPU, 0, 1-o.Sharing),
	); err != nil {
		return err
	}
	if o.LoadStart > 0 && o.Dynamics == DynamicsTimed {
		return fmt.Errorf("%w: load_start needs dynamics %s", envs.ErrInvalidOption, DynamicsTimeFree)
	}
	if o.Trace != "" && (o.Nodes != "" || len(o.Pods) > 0 || o.ReferenceSeed >= 0) {
		return fmt.Errorf("%w: nodes, pods and reference_seed say what trace says", envs.ErrInvalidOption)
	}
	switch {
	case o.ReferenceSeed < 0:
	case len(o.Pods) != 1:
		return fmt.Errorf("%w: reference_seed is of one pod list, given %d in pods", envs.ErrInvalidOption, len(o.Pods))
	case o.Dynamics != DynamicsTimeFree:
		return fmt.Errorf("%w: reference_seed needs dynamics %s", envs.ErrInvalidOption, DynamicsTimeFree)
	}
	return nil
}
