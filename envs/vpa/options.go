package vpa

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// Values of the options of [Options].
const (
	ModeOff               = "Off"               // recommendations are recorded only
	ModeInitial           = "Initial"           // … and applied to the pods as they are created, with the first action
	ModeRecreate          = "Recreate"          // … and pods are evicted and created anew
	ModeInPlaceOrRecreate = "InPlaceOrRecreate" // … or resized in place, and evicted where that is not possible
	ModeInPlace           = "InPlace"           // … or resized in place, and never evicted

	UpdaterUpstream = "upstream" // acts on requests outside the bounds, quick OOM kills, and old pods that differ
	UpdaterUsage    = "usage"    // the earlier project's rule: acts on usage outside the bounds or at the limit

	SplitTrain   = "train"
	SplitHeldOut = "heldout"
	SplitAll     = "all"

	WeightingSlack = "slack_heavy"
	WeightingEqual = "equal"
	WeightingRisk  = "risk_heavy"

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
	MaxGap   float64 `opt:"max_gap_s" doc:"longest hole in data, in seconds, that is filled with the values before it; a longer one is an error"`
	Split    string  `opt:"split" doc:"train, heldout (workloads that no training sees) or all"`

	Steps    int     `opt:"steps" doc:"steps of an episode"`
	Interval float64 `opt:"interval_s" doc:"seconds of a step, which is also the updater's interval and that of usage samples"`
	History  float64 `opt:"history_h" doc:"hours of usage known before the episode"`

	Pods      int     `opt:"pods" doc:"pods under the controller, 1 to 64"`
	PodSpread float64 `opt:"pod_spread" doc:"standard deviation of the logarithm of the pods' shares of the load"`

	InitialLow  float64 `opt:"initial_low" doc:"requests at the start are the peak of the history times a factor from initial_low to initial_high, or what data says of the container"`
	InitialHigh float64 `opt:"initial_high" doc:"see initial_low"`

	LimitRatioCPU    float64 `opt:"limit_ratio_cpu" doc:"CPU limit over request at the start; 1 is equal, 0 is no limit"`
	LimitRatioMemory float64 `opt:"limit_ratio_memory" doc:"memory limit over request at the start; 1 is equal, 0 is no limit"`

	Mode           string   `opt:"mode" doc:"Off, Initial, Recreate, InPlaceOrRecreate or InPlace"`
	Updater        string   `opt:"updater" doc:"upstream, or usage: the earlier project's rule"`
	MinReplicas    int      `opt:"min_replicas" doc:"fewer live pods than this are left alone; upstream's default is 2"`
	Tolerance      float64  `opt:"eviction_tolerance" doc:"fraction of the pods that may be disrupted at a time"`
	EvictAfterOOM  float64  `opt:"evict_after_oom_s" doc:"a container that ran for less seconds until an OOM kill is acted upon at once"`
	Requirements   []string `opt:"eviction_requirements" doc:"all must hold for a pod to be evicted or resized: lists of cpu+memory:TargetHigherThanRequests or …TargetLowerThanRequests"`
	Controlled     string   `opt:"controlled_values" doc:"RequestsAndLimits (limits keep their proportion) or RequestsOnly"`
	ResizePolicy   string   `opt:"resize_policy" doc:"NotRequired, or RestartContainer: a resize in place restarts the container"`
	MinCPU         float64  `opt:"min_allowed_cpu_m" doc:"policy: least CPU request in millicores; also the low end of actions"`
	MaxCPU         float64  `opt:"max_allowed_cpu_m" doc:"policy: greatest CPU request in millicores; also the high end of actions"`
	MinMemory      float64  `opt:"min_allowed_memory_mib" doc:"policy: least memory request in MiB; also the low end of actions"`
	MaxMemory      float64  `opt:"max_allowed_memory_mib" doc:"policy: greatest memory request in MiB; also the high end of actions"`
	RangeMinCPU    float64  `opt:"limit_range_min_cpu_m" doc:"LimitRange of containers: least CPU, 0 is none"`
	RangeMaxCPU    float64  `opt:"limit_range_max_cpu_m" doc:"LimitRange of containers: greatest CPU, limits included, 0 is none"`
	RangeMinMemory float64  `opt:"limit_range_min_memory_mib" doc:"LimitRange of containers: least memory, 0 is none"`
	RangeMaxMemory float64  `opt:"limit_range_max_memory_mib" doc:"LimitRange of containers: greatest memory, limits included, 0 is none"`
	RangeCPU       float64  `opt:"limit_range_default_cpu_m" doc:"LimitRange of containers: CPU limit of one that has none, 0 is none"`
	RangeMemory    float64  `opt:"limit_range_default_memory_mib" doc:"LimitRange of containers: memory limit of one that has none, 0 is none"`
	RangeRatio     float64  `opt:"limit_range_max_ratio" doc:"LimitRange of containers: greatest limit over request, 0 is none"`

	NodeCPU    float64 `opt:"node_cpu_m" doc:"millicores of the node; 0, where other pods share it, goes by busy_cpu"`
	NodeMemory float64 `opt:"node_memory_mib" doc:"memory of the node in MiB; 0, where other pods share it, goes by busy_memory"`
	Startup    float64 `opt:"startup_s" doc:"seconds from the start of a container until it serves"`
	Checkpoint float64 `opt:"checkpoint_s" doc:"seconds between a container's checkpoints; an OOM kill loses the work since the last"`

	Weighting string `opt:"weighting" doc:"slack_heavy, equal or risk_heavy: the weights of the reward's terms"`
	Hold      int    `opt:"hold" doc:"steps for which an action holds; baselines that are set exactly decide at each"`
	Encoding  string `opt:"encoding" doc:"of continuous actions: log (amounts); in v0 relative (factors of the last hour's peak) or upstream (factors of what upstream's recommender gives), in v1 residual (corrections of quantile_tuned)"`
	Safety    string `opt:"safety" doc:"none, or memory: an action's memory is raised to what upstream's recommender gives, and the last day's peak"`
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
		Weighting: WeightingEqual, Hold: 1, Encoding: EncodingLog, Safety: SafetyNone,
	}
}

// check checks the options. leastNode is the least size of the node, and encodings are those that the
// environment has.
func (o *Options) check(leastNode float64, encodings ...string) error {
	if err := envs.CheckOptions(
		envs.OneOf("workload", o.Workload, append([]string{WorkloadMixed}, workload.Types()...)...),
		envs.OneOf("format", o.Format, append([]string{""}, workload.Formats()...)...),
		envs.OneOf("split", o.Split, SplitTrain, SplitHeldOut, SplitAll),
		envs.OneOf("mode", o.Mode, ModeOff, ModeInitial, ModeRecreate, ModeInPlaceOrRecreate, ModeInPlace),
		envs.OneOf("updater", o.Updater, UpdaterUpstream, UpdaterUsage),
		envs.OneOf("controlled_values", o.Controlled, RequestsAndLimits, RequestsOnly),
		envs.OneOf("resize_policy", o.ResizePolicy, ResizeNotRequired, ResizeRestartContainer),
		envs.OneOf("weighting", o.Weighting, WeightingSlack, WeightingEqual, WeightingRisk),
		envs.OneOf("encoding", o.Encoding, encodings...),
		envs.OneOf("safety", o.Safety, SafetyNone, SafetyMemory),
	); err != nil {
		return err
	}
	if err := o.checkNumbers(leastNode); err != nil {
		return err
	}
	return o.checkLimits()
}

func (o *Options) checkNumbers(leastNode float64) error {
	const most = 1e9 // millicores, or MiB
	return envs.CheckOptions(
		envs.Between("max_gap_s", o.MaxGap, 1, 1e9),
		envs.Between("steps", o.Steps, 1, 1e6),
		envs.Between("hold", o.Hold, 1, o.Steps),
		envs.Between("interval_s", o.Interval, 1, 86400),
		envs.Between("history_h", o.History, 0, 24*365),
		envs.Between("pods", o.Pods, 1, 64),
		envs.Between("pod_spread", o.PodSpread, 0, 2),
		envs.Between("initial_low", o.InitialLow, 0.01, 100),
		envs.Between("initial_high", o.InitialHigh, o.InitialLow, 100),
		envs.Between("limit_ratio_cpu", o.LimitRatioCPU, 0, 1000),
		envs.Between("limit_ratio_memory", o.LimitRatioMemory, 0, 1000),
		envs.Between("min_replicas", o.MinReplicas, 1, 1e6),
		envs.Between("eviction_tolerance", o.Tolerance, 0, 1),
		envs.Between("evict_after_oom_s", o.EvictAfterOOM, 1, 1e9),
		envs.Between("min_allowed_cpu_m", o.MinCPU, 1, most),
		envs.Between("max_allowed_cpu_m", o.MaxCPU, o.MinCPU+1, most),
		envs.Between("min_allowed_memory_mib", o.MinMemory, 1, most),
		envs.Between("max_allowed_memory_mib", o.MaxMemory, o.MinMemory+1, most),
		envs.Between("limit_range_min_cpu_m", o.RangeMinCPU, 0, most),
		envs.Between("limit_range_max_cpu_m", o.RangeMaxCPU, 0, most),
		envs.Between("limit_range_min_memory_mib", o.RangeMinMemory, 0, most),
		envs.Between("limit_range_max_memory_mib", o.RangeMaxMemory, 0, most),
		envs.Between("limit_range_default_cpu_m", o.RangeCPU, 0, most),
		envs.Between("limit_range_default_memory_mib", o.RangeMemory, 0, most),
		envs.Between("limit_range_max_ratio", o.RangeRatio, 0, 1000),
		envs.Between("node_cpu_m", o.NodeCPU, leastNode, most),
		envs.Between("node_memory_mib", o.NodeMemory, leastNode, most),
		envs.Between("startup_s", o.Startup, 0, 86400),
		envs.Between("checkpoint_s", o.Checkpoint, 1, 1e9),
	)
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
