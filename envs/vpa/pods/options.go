package pods

import (
	"fmt"
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Values of [Options].
const (
	ModeOff               = "Off"               // recommendations are only recorded
	ModeInitial           = "Initial"           // … and applied to pods at their creation, with the first action
	ModeRecreate          = "Recreate"          // … and applied by evicting pods, which are re-created
	ModeInPlaceOrRecreate = "InPlaceOrRecreate" // … or by resizing in place, or by eviction if that is not possible
	ModeInPlace           = "InPlace"           // … or by resizing in place, never by eviction

	UpdaterUpstream = "upstream" // acts on requests outside the bounds, quick OOM kills, and old pods that differ
	UpdaterUsage    = "usage"    // the earlier project's criterion: acts on usage outside the bounds or at the limit

	RequestsAndLimits = "RequestsAndLimits"
	RequestsOnly      = "RequestsOnly"

	ResizeNotRequired      = "NotRequired"
	ResizeRestartContainer = "RestartContainer"
)

// Options are the options of admission, updater and kubelet, with the defaults of [DefaultOptions].
type Options struct {
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
}

// DefaultOptions returns the defaults.
func DefaultOptions() Options {
	return Options{
		LimitRatioCPU: 2, LimitRatioMemory: 1.2,
		Mode: ModeRecreate, Updater: UpdaterUpstream, MinReplicas: 1, Tolerance: 0.5, EvictAfterOOM: 600,
		Controlled: RequestsAndLimits, ResizePolicy: ResizeNotRequired,
		MinCPU: 10, MaxCPU: 32000, MinMemory: 16, MaxMemory: 131072,
	}
}

// Check checks the options of limits and LimitRange for contradictions.
func (o *Options) Check() error {
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

// Bounds returns the least and the greatest request by the policy and the LimitRange. The LimitRange's maximum bounds
// the limit, which is in proportion to the request.
func (o *Options) Bounds() (low, high cluster.Resources) {
	low = Amount(max(o.MinCPU, o.RangeMinCPU), max(o.MinMemory, o.RangeMinMemory))
	high = Amount(o.MaxCPU, o.MaxMemory)
	ranged := Amount(o.RangeMaxCPU, o.RangeMaxMemory)
	if o.RangeMaxCPU > 0 {
		high.MilliCPU = min(high.MilliCPU, int64(float64(ranged.MilliCPU)/o.ratio(o.LimitRatioCPU)))
	}
	if o.RangeMaxMemory > 0 {
		high.MemoryBytes = min(high.MemoryBytes, int64(float64(ranged.MemoryBytes)/o.ratio(o.LimitRatioMemory)))
	}
	high.MilliCPU, high.MemoryBytes = max(high.MilliCPU, low.MilliCPU), max(high.MemoryBytes, low.MemoryBytes)
	return low, high
}

// start returns a container's request of one resource at the start, its limit, and the greatest request whose
// proportional limit is within the LimitRange. The limit is that of the trace, or in proportion to the request, or the
// LimitRange's default for a container without one. The API server rejects a request above that default or too far
// below it, so start moves the request.
func (o *Options) start(request, trace, implied, greatest, high int64, ratio float64) (int64, int64, int64) {
	var limit int64
	switch {
	case trace > 0:
		limit = max(trace, request)
	case ratio > 0:
		limit = int64(float64(request) * ratio)
		if greatest > 0 && o.Controlled == RequestsOnly { // otherwise high keeps limits within the LimitRange
			limit = max(min(limit, greatest), request)
		}
		return request, limit, high
	case implied == 0:
		return request, 0, high
	default:
		limit, request = implied, min(request, implied)
		if o.RangeRatio > 0 {
			request = max(request, int64(math.Ceil(float64(limit)/o.RangeRatio)))
		}
	}
	if greatest > 0 {
		limit = min(limit, greatest)
		if o.Controlled == RequestsAndLimits {
			high = min(high, int64(float64(greatest)*float64(request)/float64(limit)))
		}
	}
	return request, limit, high
}

// ratio returns r, the ratio of a limit to its request, if limits follow requests, and otherwise 1.
func (o *Options) ratio(r float64) float64 {
	if o.Controlled == RequestsOnly {
		return 1
	}
	return max(r, 1)
}

// Amount returns millicores and MiB as resources.
func Amount(cpu, mem float64) cluster.Resources {
	return cluster.Resources{MilliCPU: int64(cpu), MemoryBytes: int64(mem * mebibyte)}
}

const mebibyte = 1 << 20

// Duration returns seconds as a duration.
func Duration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}
