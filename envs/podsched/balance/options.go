package balance

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
)

// Values of the options of [Options].
const (
	KindEqual = "equal" // nodes or pods as in the setting of the source
	KindMixed = "mixed"

	ObjectiveBalance = "balance" // equal shares of the nodes in use
	ObjectiveSpread  = "spread"  // the replicas of a deployment on different racks and servers
	ObjectivePack    = "pack"    // few racks and servers in use

	MeasureRequests = "requests"
	MeasureUsage    = "usage"

	RewardSound    = "sound"
	RewardOriginal = "original"

	EdgesNone = "none"
	EdgesRack = "rack"

	HintsNone     = "none"
	HintsLifetime = "lifetime"
)

// Limits of the options.
const (
	maxNodes    = 5000
	maxLifetime = 1000 // in intervals, so that an overloaded cluster soon has room again
)

// Options are the options of k8s/PodBalance-v0, with the defaults of [DefaultOptions].
type Options struct {
	Nodes          int     `opt:"nodes" valid:"1,5000" doc:"number of worker nodes, 1 to 5000"`
	NodeTypes      string  `opt:"node_types" valid:"equal|mixed" doc:"equal: 64 CPU and 256 Gi each; mixed: drawn from six sizes"`
	ServersPerRack int     `opt:"servers_per_rack" valid:"1,5000" doc:"nodes of a rack, in the order of the nodes"`
	Pods           string  `opt:"pods" valid:"equal|mixed" doc:"equal: 1 CPU and 2 Gi each; mixed: each deployment draws a size"`
	MemoryHeavy    float64 `opt:"memory_heavy" valid:"0,1" doc:"part of the deployments whose pods want 4 to 32 times the memory that nodes have for their CPU"`
	ReplicasMin    int     `opt:"replicas_min" valid:"1,1000" doc:"least replicas of a deployment"`
	ReplicasMax    int     `opt:"replicas_max" doc:"most replicas of a deployment, at most 1000"`
	Deployments    string  `opt:"deployments,file" doc:"CSV file of deployments to play in its order, in place of drawn ones"`
	Trace          string  `opt:"trace,file" doc:"file with a recording of a cluster, whose nodes and pods are played as they came and ended, in place of drawn ones"`

	CPULoad    float64 `opt:"cpu_load" valid:"5e-324,1" doc:"part of the cluster's CPU at which it counts as filled"`
	MemoryLoad float64 `opt:"memory_load" valid:"5e-324,1" doc:"likewise of its memory"`
	PodLoad    float64 `opt:"pod_load" valid:"5e-324,1" doc:"likewise of the pods that its nodes run at most"`
	Resets     int     `opt:"resets" valid:"1,1000" doc:"how often the cluster is filled and emptied in an episode"`
	ResetPods  []int   `opt:"reset_pods" valid:"1,1e6" doc:"pods after which it is emptied, one number for each time, in place of loads and resets"`
	Steps      int     `opt:"steps" valid:"0,1e6" doc:"truncate after so many decisions; 0 is never, and must be more with a lifetime"`

	Interval float64 `opt:"interval" valid:"0,1e6" doc:"seconds between deployments"`
	Lifetime float64 `opt:"lifetime" valid:"0,1e9" doc:"mean seconds that a pod runs, exponentially distributed, at most 1000 intervals; 0 is for ever. With it the cluster is emptied at reset_pods only"`
	UsageMin float64 `opt:"usage_min" valid:"0,1" doc:"least part of its requests that a pod uses"`
	UsageMax float64 `opt:"usage_max" doc:"most; each pod draws its part uniformly"`

	Objective  string  `opt:"objective" valid:"balance|spread|pack" doc:"balance, spread or pack"`
	Measure    string  `opt:"measure" valid:"requests|usage" doc:"requests or usage: which shares of the nodes balance compares"`
	Reward     string  `opt:"reward" valid:"sound|original" doc:"sound, or original: that of the source, for comparison with its runs"`
	Overcommit bool    `opt:"overcommit" doc:"nodes take pods beyond their capacity, as the source's do; with the original reward only"`
	Hints      string  `opt:"hints" valid:"none|lifetime" doc:"none, or lifetime: pods come with a prediction of how long they run; the observation forecasts by it"`
	HintError  float64 `opt:"hint_error" valid:"1,1000" doc:"greatest factor between a prediction and the truth, with hints; its logarithm is drawn uniformly"`
	Costs      bool    `opt:"costs" doc:"the observation also has the cost of binding the pod to each node, which Greedy compares"`

	Edges string `opt:"edges" valid:"none|rack" doc:"none, or rack: the observation has the graph of nodes that share a rack"`
}

// DefaultOptions returns the setting of the source.
func DefaultOptions() Options {
	return Options{
		Nodes: 10, NodeTypes: KindEqual, ServersPerRack: 4, Pods: KindEqual, ReplicasMin: 5, ReplicasMax: 15,
		CPULoad: 0.2, MemoryLoad: 0.2, PodLoad: 0.2, Resets: 2, Interval: 40, UsageMin: 1, UsageMax: 1,
		Objective: ObjectiveBalance, Measure: MeasureRequests, Reward: RewardSound, Edges: EdgesNone,
		Hints: HintsNone, HintError: 2,
	}
}

// complete checks the options and sets those that follow from others.
func (o *Options) complete() error {
	if err := envs.CheckOptions(o,
		envs.Between("replicas_max", o.ReplicasMax, o.ReplicasMin, deployments.MaxReplicas),
		envs.Between("usage_max", o.UsageMax, o.UsageMin, 1),
	); err != nil {
		return err
	}
	if o.Trace != "" && (o.Deployments != "" || o.NodeTypes != KindEqual || o.Pods != KindEqual || o.MemoryHeavy != 0 || o.Lifetime != 0 || len(o.ResetPods) > 0 || o.Overcommit) {
		return fmt.Errorf("%w: deployments, node_types, pods, memory_heavy, lifetime, reset_pods and overcommit say what trace says", envs.ErrInvalidOption)
	}
	if len(o.ResetPods) > 0 {
		o.Resets = len(o.ResetPods)
	}
	switch {
	case o.Lifetime > 0 && o.Steps == 0:
		return fmt.Errorf("%w: steps is 0 with lifetime %v, want more: where pods end, nothing else ends the episode", envs.ErrInvalidOption, o.Lifetime)
	case o.Lifetime > maxLifetime*o.Interval:
		return fmt.Errorf("%w: lifetime is %v with interval %v, want at most %d times that", envs.ErrInvalidOption, o.Lifetime, o.Interval, maxLifetime)
	case o.Hints == HintsLifetime && o.Lifetime == 0 && o.Trace == "":
		return fmt.Errorf("%w: hints %s without lifetime or trace, want pods that end", envs.ErrInvalidOption, o.Hints)
	case o.Hints == HintsLifetime && o.Objective != ObjectiveBalance:
		return fmt.Errorf("%w: hints %s with the objective %s, want %s, whose shares they forecast", envs.ErrInvalidOption, o.Hints, o.Objective, ObjectiveBalance)
	case o.Costs && o.Objective != ObjectiveBalance:
		return fmt.Errorf("%w: costs with the objective %s, want %s, whose shares they compare", envs.ErrInvalidOption, o.Objective, ObjectiveBalance)
	case o.Costs && o.Hints == HintsLifetime:
		return fmt.Errorf("%w: costs with hints %s, which show them too; want one of the two", envs.ErrInvalidOption, o.Hints)
	case o.Overcommit && o.Reward != RewardOriginal:
		return fmt.Errorf("%w: overcommit with the %s reward, want reward %s", envs.ErrInvalidOption, o.Reward, RewardOriginal)
	case o.Reward == RewardOriginal && o.Measure != MeasureRequests:
		return fmt.Errorf("%w: measure %s with the original reward, which knows requests only", envs.ErrInvalidOption, o.Measure)
	case o.Edges == EdgesRack && (o.Nodes < 2 || o.ServersPerRack < 2):
		return fmt.Errorf("%w: edges %s with %d nodes in racks of %d, want at least 2 of each", envs.ErrInvalidOption, o.Edges, o.Nodes, o.ServersPerRack)
	case o.Deployments != "" && (o.Pods != KindEqual || o.MemoryHeavy != 0):
		return fmt.Errorf("%w: pods and memory_heavy say what is drawn, deployments that nothing is", envs.ErrInvalidOption)
	}
	return nil
}
