package vpa

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// Values of the options of [Options].
const (
	SplitTrain   = "train"
	SplitHeldOut = "heldout"
	SplitAll     = "all"

	EncodingLog      = "log"      // action elements are amounts on a logarithmic scale
	EncodingRelative = "relative" // … factors of the peak of the last hour
	EncodingUpstream = "upstream" // … factors of upstream's recommendation

	SafetyNone   = "none"
	SafetyMemory = "memory" // memory is at least upstream's recommendation and the peak of the last day

	// WorkloadMixed draws a type of workload for each episode.
	WorkloadMixed = "mixed"
)

// Options are the options of both environments, with the defaults of [DefaultOptions].
type Options struct {
	Workload string  `opt:"workload" doc:"mixed, constant, low_high, sinusoidal, step, random_walk, azure, alibaba, borg or arabesque"`
	Data     string  `opt:"data,file" doc:"file or folder of usage to play in place of generated workloads"`
	Format   string  `opt:"format" doc:"of data: csv, arabesque, azure, alibaba, borg, prometheus, podmetrics or top; empty goes by the names of the files"`
	MaxGap   float64 `opt:"max_gap_s" valid:"1,1e9" doc:"longest hole in data, in seconds, that is filled with the values before it; a longer one is an error"`
	Split    string  `opt:"split" valid:"train|heldout|all" doc:"train, heldout (workloads that no training sees) or all"`

	Steps    int     `opt:"steps" valid:"1,1e6" doc:"steps of an episode"`
	Interval float64 `opt:"interval_s" valid:"1,86400" doc:"seconds of a step, which is also the updater's interval and that of usage samples"`
	History  float64 `opt:"history_h" valid:"0,8760" doc:"hours of usage known before the episode"`

	Pods      int     `opt:"pods" valid:"1,64" doc:"pods under the controller, 1 to 64"`
	PodSpread float64 `opt:"pod_spread" valid:"0,2" doc:"standard deviation of the logarithm of the pods' shares of the load"`

	InitialLow  float64 `opt:"initial_low" valid:"0.01,100" doc:"requests at the start are the peak of the history times a factor from initial_low to initial_high, or what data says of the container"`
	InitialHigh float64 `opt:"initial_high" doc:"see initial_low"`

	pods.Options `opt:",squash"`

	NodeCPU    float64 `opt:"node_cpu_m" doc:"millicores of the node; 0, where other pods share it, goes by busy_cpu"`
	NodeMemory float64 `opt:"node_memory_mib" doc:"memory of the node in MiB; 0, where other pods share it, goes by busy_memory"`
	Startup    float64 `opt:"startup_s" valid:"0,86400" doc:"seconds from the start of a container until it serves"`
	Checkpoint float64 `opt:"checkpoint_s" valid:"1,1e9" doc:"seconds between a container's checkpoints; an OOM kill loses the work since the last"`

	Weighting string `opt:"weighting" valid:"slack_heavy|equal|risk_heavy" doc:"slack_heavy, equal or risk_heavy: the weights of the reward's terms"`
	Hold      int    `opt:"hold" doc:"steps for which an action holds; baselines that are set exactly decide at each"`
	Encoding  string `opt:"encoding" doc:"of continuous actions: log (amounts); in v0 relative (factors of the last hour's peak) or upstream (factors of what upstream's recommender gives), in v1 residual or node_aware (corrections of quantile_tuned, of node_aware)"`
	Safety    string `opt:"safety" valid:"none|memory" doc:"none, or memory: an action's memory is raised to what upstream's recommender gives, and the last day's peak"`
}

// DefaultOptions returns the defaults.
func DefaultOptions() Options {
	return Options{
		Workload: WorkloadMixed, Split: SplitTrain, MaxGap: 3600,
		Steps: 1440, Interval: 60, History: 24, Pods: 1, PodSpread: 0.1,
		InitialLow: 0.7, InitialHigh: 3, Options: pods.DefaultOptions(),
		NodeCPU: 64000, NodeMemory: 262144, Startup: 30, Checkpoint: 600,
		Weighting: prices.Equal, Hold: 1, Encoding: EncodingLog, Safety: SafetyNone,
	}
}

// mostNode is the greatest size of a node and of a pod, in millicores or MiB.
const mostNode = 1e9

// check checks the options. leastNode is the minimum size of the node, and encodings are the valid encodings of the
// environment.
func (o *Options) check(leastNode float64, encodings ...string) error {
	if err := envs.CheckOptions(o,
		envs.OneOf("workload", o.Workload, append([]string{WorkloadMixed}, workload.Types()...)...),
		envs.OneOf("format", o.Format, append([]string{""}, workload.Formats()...)...),
		envs.OneOf("encoding", o.Encoding, encodings...),
		envs.Between("hold", o.Hold, 1, o.Steps),
		envs.Between("initial_high", o.InitialHigh, o.InitialLow, 100),
		envs.Between("max_allowed_cpu_m", o.MaxCPU, o.MinCPU+1, mostNode),
		envs.Between("max_allowed_memory_mib", o.MaxMemory, o.MinMemory+1, mostNode),
		envs.Between("node_cpu_m", o.NodeCPU, leastNode, mostNode),
		envs.Between("node_memory_mib", o.NodeMemory, leastNode, mostNode),
	); err != nil {
		return err
	}
	if most := int(cluster.MaxTime.Seconds() / o.Interval); o.Steps > most {
		return fmt.Errorf("%w: steps is %d with interval_s %v, want at most %d: the clock ends after 73 years", envs.ErrInvalidOption, o.Steps, o.Interval, most)
	}
	return o.Options.Check()
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

// asksUpstream reports whether upstream's recommender runs beside the agent.
func (o *Options) asksUpstream(discrete bool) bool {
	return o.Encoding == EncodingUpstream && !discrete || o.Safety == SafetyMemory
}
