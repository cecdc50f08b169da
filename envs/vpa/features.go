package vpa

import "github.com/kubernasium/kubernasium/envs"

var _ envs.FeatureNamer = (*Task)(nil)

// Names of the elements that Observe writes, in order. The name of a resource precedes the names of its elements.
var (
	resourceNames = [obsPerResource]string{
		"used", "requested", "limit", "peak_hour", "mean_hour", "peak_day", "target", "used_over_requested",
	}
	commonNames = [obsCommon]string{
		"sin_day", "cos_day", "sin_week", "cos_week", "pods_ready", "pods_resizing", "cpu_throttled", "cpu_down",
		"oom_kills", "restarts", "steps_since_oom_kill", "steps_since_change", "episode_over",
	}
	upstreamNames = [obsUpstream / 2]string{
		"used", "requested", "peak_hour", "mean_hour", "peak_day", "target", "upstream_lower_bound", "upstream_upper_bound",
	}
)

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	var names []string
	for _, resource := range []string{"cpu_", "memory_"} {
		for _, name := range resourceNames {
			names = append(names, resource+name)
		}
	}
	names = append(names, commonNames[:]...)
	if t.feed != nil {
		for _, resource := range []string{"cpu_", "memory_"} {
			for _, name := range upstreamNames {
				names = append(names, resource+name+"_over_upstream_target")
			}
		}
	}
	if t.dynamics.Node != nil {
		names = append(names, sharedNames[:]...)
	}
	if t.base != nil {
		names = append(names, t.base.Names()...)
	}
	return []envs.Features{{Names: names}}
}
