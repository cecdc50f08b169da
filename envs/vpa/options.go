package vpa

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// Values of the options of [Options].
const (
	ModeOff               = "Off"               // recommendations are recorded only
	ModeInitial           = "Initial"           // … and applied to the pods as they are created, with the first action
	ModeRecreate          = "Recreate"          // … and pods are evicted and created again
	ModeInPlaceOrRecreate = "InPlaceOrRecreate" // … or resized in place, and evicted where that is not possible
	ModeInPlace           = "InPlace"           // … or resized in place, and never evicted

	UpdaterUpstream = "upstream" // acts on requests outside the bounds, quick OOM kills, and old pods that differ
	UpdaterUsage    = "usage"    // the earlier project's rule: acts on usage outside the bounds or at the limit

	SplitTrain   = "train"
	SplitHeldOut = "heldout"
	SplitAll     = "all"

	EncodingLog      = "log"      // action elements are amounts on a logarithmic scale
	EncodingRelative = "relative" // … factors of the peak of the last hour
	EncodingUpstream = "upstream" // … factors of upstream's recommendation

	SafetyNone   = "none"
	SafetyMemory = "memory" // memory is never below upstream's recommendation, nor below the peak of the last day

	RequestsAndLimits = "RequestsAndLimits"
	RequestsOnly      = "RequestsOnly"

	ResizeNotRequired      = "NotRequired"
	ResizeRestartContainer = "RestartContainer"

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

	LimitRatioCPU    float64 `opt:"limit_ratio_cpu" valid:"0,1000" doc:"CPU limit over request at the start; 1 is equal, 0 is no limit"`
	LimitRatioMemory float64 `opt:"limit_ratio_memory" valid:"0,1000" doc:"memory limit over request at the start; 1 is equal, 0 is no limit"`

	Mode           string   `opt:"mode" valid:"Off|Initial|Recreate|InPlaceOrRecreate|InPlace" doc:"Off, Initial, Recreate, InPlaceOrRecreate or InPlace"`
	Updater        string   `opt:"updater" valid:"upstream|usage" doc:"upstream, or usage: the earlier project's rule"`
	MinReplicas    int      `opt:"min_replicas" valid:"1,1e6" doc:"fewer live pods than this are left alone; upstream's default is 2"`
	Tolerance      float64  `opt:"eviction_tolerance" valid:"0,1" doc:"fraction of the pods that may be disrupted at a time"`
	EvictAfterOOM  float64  `opt:"evict_after_oom_s" valid:"1,1e9" doc:"a container that ran for less seconds until an OOM kill is acted upon at once"`
	Requirements   []string `opt:"eviction_requirements" doc:"all must hold for a pod to be evicted or resized: lists of cpu+memory:TargetHigherThanRequests or …TargetLowerThanRequests"`
	Controlled     string   `opt:"controlled_values" valid:"RequestsAndLimits|RequestsOnly" doc:"RequestsAndLimits (limits keep their proportion) or RequestsOnly"`
	ResizePolicy   string   `opt:"resize_policy" valid:"NotRequired|RestartContainer" doc:"NotRequired, or RestartContainer: a resize in place restarts the container"`
	MinCPU         float64  `opt:"min_allowed_cpu_m" valid:"1,1e9" doc:"policy: least CPU request in millicores; also the low end of actions"`
	MaxCPU         float64  `opt:"max_allowed_cpu_m" doc:"policy: greatest CPU request in millicores; also the high end of actions"`
	MinMemory      float64  `opt:"min_allowed_memory_mib" valid:"1,1e9" doc:"policy: least memory request in MiB; also the low end of actions"`
	MaxMemory      float64  `opt:"max_allowed_memory_mib" doc:"policy: greatest memory request in MiB; also the high end of actions"`
	RangeMinCPU    float64  `opt:"limit_range_min_cpu_m" valid:"0,1e9" doc:"LimitRange of containers: least CPU, 0 is none"`
	RangeMaxCPU    float64  `opt:"limit_range_max_cpu_m" valid:"0,1e9" doc:"LimitRange of containers: greatest CPU, limits included, 0 is none"`
	RangeMinMemory float64  `opt:"limit_range_min_memory_mib" valid:"0,1e9" doc:"LimitRange of containers: least memory, 0 is none"`
	RangeMaxMemory float64  `opt:"limit_range_max_memory_mib" valid:"0,1e9" doc:"LimitRange of containers: greatest memory, limits included, 0 is none"`
	RangeCPU       float64  `opt:"limit_range_default_cpu_m" valid:"0,1e9" doc:"LimitRange of containers: CPU limit of one that has none, 0 is none"`
	RangeMemory    float64  `opt:"limit_range_default_memory_mib" valid:"0,1e9" doc:"LimitRange of containers: memory limit of one that has none, 0 is none"`
	RangeRatio     float64  `opt:"limit_range_max_ratio" valid:"0,1000" doc:"LimitRange of containers: greatest limit over request, 0 is none"`

	NodeCPU    float64 `opt:"node_cpu_m" doc:"millicores of the node; 0, where other pods share it, goes by busy_cpu"`
	NodeMemory float64 `opt:"node_memory_mib" doc:"memory of the node in MiB; 0, where other pods share it, goes by busy_memory"`
	Startup    float64 `opt:"startup_s" valid:"0,86400" doc:"seconds from the start of a container until it serves"`
	Checkpoint float64 `opt:"checkpoint_s" valid:"1,1e9" doc:"seconds between a container's checkpoints; an OOM kill loses the work since the last"`

	Weighting string `opt:"weighting" valid:"slack_heavy|equal|risk_heavy" doc:"slack_heavy, equal or risk_heavy: the weights of the reward's terms"`
	Hold      int    `opt:"hold" doc:"steps for which an action holds; baselines that are set exactly decide at each"`
	Encoding  string `opt:"encoding" doc:"of continuous actions: log (amounts); in v0 relative (factors of the last hour's peak) or upstream (factors of what upstream's recommender gives), in v1 residual (corrections of quantile_tuned)"`
	Safety    string `opt:"safety" valid:"none|memory" doc:"none, or memory: an action's memory is raised to what upstream's recommender gives, and the last day's peak"`
}

// DefaultOptions returns the defaults.
func DefaultOptions() Options {
	return Options{
		Workload: WorkloadMixed, Split: SplitTrain, MaxGap: 3600,
		Steps: 1440, Interval: 60, History: 24, Pods: 1, PodSpread: 0.1,
		InitialLow: 0.7, InitialHigh: 3, LimitRatioCPU: 2, LimitRatioMemory: 1.2,
		Mode: ModeRecreate, Updater: UpdaterUpstream, MinReplicas: 1, Tolerance: 0.5, EvictAfterOOM: 600,
		Controlled: RequestsAndLimits, ResizePolicy: ResizeNotRequired,
		MinCPU: 10, MaxCPU: 32000, MinMemory: 16, MaxMemory: 131072,
		NodeCPU: 64000, NodeMemory: 262144, Startup: 30, Checkpoint: 600,
		Weighting: prices.Equal, Hold: 1, Encoding: EncodingLog, Safety: SafetyNone,
	}
}

// check checks the options. leastNode is the least size of the node, and encodings are those that the
// environment has.
func (o *Options) check(leastNode float64, encodings ...string) error {
	const most = 1e9 // millicores, or MiB
	if err := envs.CheckOptions(o,
		envs.OneOf("workload", o.Workload, append([]string{WorkloadMixed}, workload.Types()...)...),
		envs.OneOf("format", o.Format, append([]string{""}, workload.Formats()...)...),
		envs.OneOf("encoding", o.Encoding, encodings...),
		envs.Between("hold", o.Hold, 1, o.Steps),
		envs.Between("initial_high", o.InitialHigh, o.InitialLow, 100),
		envs.Between("max_allowed_cpu_m", o.MaxCPU, o.MinCPU+1, most),
		envs.Between("max_allowed_memory_mib", o.MaxMemory, o.MinMemory+1, most),
		envs.Between("node_cpu_m", o.NodeCPU, leastNode, most),
		envs.Between("node_memory_mib", o.NodeMemory, leastNode, most),
	); err != nil {
		return err
	}
	return o.checkLimits()
}

// checkLimits checks the options of limits and LimitRange against one another.
func (o *Options) checkLimits() error {
	if o.RangeRatio > 0 && o.RangeRatio < 1 {
		return fmt.Errorf("%w: limit_range_max_ratio is %v, want 0 (none) or 1 and more", envs.ErrInvalidOption, o.RangeRatio)
	}
	for _, c := range []struct {
		name                     string
		ratio, min, max, implied float64
	}{
		{"cpu", o.LimitRatioCPU, o.RangeMinCPU, o.RangeMaxCPU, o.RangeCPU},
		{"memory", o.LimitRatioMemory, o.RangeMinMemory, o.RangeMaxMemory, o.RangeMemory},
	} {
		switch {
		case c.ratio != 0 && c.ratio < 1:
			return fmt.Errorf("%w: limit_ratio_%s is %v, want 0 (no limit) or 1 and more", envs.ErrInvalidOption, c.name, c.ratio)
		case o.RangeRatio != 0 && c.ratio > o.RangeRatio:
			return fmt.Errorf("%w: limit_ratio_%s is %v, and limit_range_max_ratio permits %v", envs.ErrInvalidOption, c.name, c.ratio, o.RangeRatio)
		case c.max != 0 && c.max < c.min:
			return fmt.Errorf("%w: the LimitRange of %s is from %v to %v", envs.ErrInvalidOption, c.name, c.min, c.max)
		case c.implied != 0 && (c.implied < c.min || c.max != 0 && c.implied > c.max):
			return fmt.Errorf("%w: the LimitRange of %s has the default limit %v, want one from its least amount, %v, to its greatest, %v (0 is none)",
				envs.ErrInvalidOption, c.name, c.implied, c.min, c.max)
		case c.max != 0 && c.min*max(c.ratio, 1) > c.max:
			return fmt.Errorf("%w: the LimitRange of %s from %v to %v leaves no request whose limit is %v times as much",
				envs.ErrInvalidOption, c.name, c.min, c.max, c.ratio)
		}
	}
	return nil
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

// asksUpstream reports whether upstream's recommender runs beside the agent.
func (o *Options) asksUpstream(discrete bool) bool {
	return o.Encoding == EncodingUpstream && !discrete || o.Safety == SafetyMemory
}

// amount returns millicores and MiB as resources.
func amount(cpu, mem float64) cluster.Resources {
	return cluster.Resources{MilliCPU: int64(cpu), MemoryBytes: int64(mem * mib)}
}
