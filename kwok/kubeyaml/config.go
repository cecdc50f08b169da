package kubeyaml

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// points is a set of those extension points of the scheduling framework that matter here.
type points uint8

const (
	filter points = 1 << iota
	preScore
	score
	reserve

	allPoints = filter | preScore | score | reserve
)

var pointNames = []struct {
	point points
	name  string
}{{filter, "filter"}, {preScore, "preScore"}, {score, "score"}, {reserve, "reserve"}}

func (p points) String() string {
	var names []string
	for _, n := range pointNames {
		if p&n.point != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ", ")
}

// known is a plugin that a configuration may name.
type known struct {
	does    points // extension points where the plugin acts
	needs   points // extension points that it needs if it is enabled at score
	why     string
	policy  bool // one of gpushare.PolicyNames
	ignored bool // has no effect here

	as       string             // name of the plugin in package gpushare, if it differs
	strategy *gpushare.Strategy // of NodeResourcesFit, for a plugin that has become one of its strategies
	refused  bool               // may only be disabled
}

const gpuShare = "GpuShare"

// plugins maps the names of all known plugins.
var plugins = knownPlugins()

func knownPlugins() map[string]known {
	all := map[string]known{
		"NodeResourcesFit":                {does: filter | preScore | score},
		"NodeResourcesBalancedAllocation": {does: preScore | score},
		"ImageLocality":                   {does: score},
		"TaintToleration":                 {does: filter | preScore | score, needs: preScore, why: "its preScore reads the pod's tolerations"},
		"NodeAffinity":                    {does: filter | preScore | score, needs: preScore, why: "its preScore reads the pod's preferred terms"},
		"PodTopologySpread":               {does: filter | preScore | score, needs: preScore, why: "its preScore counts the pods of each domain"},
		"InterPodAffinity":                {does: filter | preScore | score, needs: preScore, ignored: true},
		gpuShare:                          {does: filter | reserve},
	}
	for _, name := range []string{
		"SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "NodePorts", "VolumeRestrictions", "NodeVolumeLimits",
		"VolumeBinding", "VolumeZone", "DefaultPreemption", "DefaultBinder", "DynamicResources",
	} {
		all[name] = known{does: filter, ignored: true}
	}
	for _, name := range gpushare.PolicyNames() {
		k := known{does: preScore | score | reserve, policy: true}
		switch name {
		case "KubeResources", "KubeDefault":
			continue // sets of the plugins above
		case "FGD", "ScarcityFGD":
			k.needs, k.why = preScore, "its preScore reads which pods are typical"
		}
		all[name] = k
	}
	addSimon(all)
	return all
}

// Config holds the settings of a KubeSchedulerConfiguration that matter here.
type Config struct {
	schedulers map[string]scheduler
	names      []string
}

type scheduler struct {
	profile gpushare.Profile
	reserve string // the plugin that chooses devices, or ""
}

// ReadConfig reads a KubeSchedulerConfiguration of version v1, or of v1beta1, which Simon uses. It accepts
// kube-scheduler's plugins that are on by default in that version, the policies of package gpushare by name,
// and Simon's plugins.
//
// It is an error if a plugin is unknown, or is enabled at score but not at an extension point that it needs:
// kube-scheduler would start and place no pod.
func ReadConfig(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func parseConfig(data []byte) (*Config, error) {
	var raw struct {
		configv1.KubeSchedulerConfiguration `json:",inline"`

		HealthzBindAddress string `json:"healthzBindAddress"` // of v1beta1
		MetricsBindAddress string `json:"metricsBindAddress"` // likewise
	}
	if err := yaml.UnmarshalStrict(data, &raw); err != nil {
		return nil, err
	}
	old := raw.APIVersion == v1beta1
	if raw.Kind != "KubeSchedulerConfiguration" || raw.APIVersion != configv1.SchemeGroupVersion.String() && !old {
		return nil, fmt.Errorf("kind %q of apiVersion %q, want KubeSchedulerConfiguration of %s or %s", raw.Kind, raw.APIVersion, configv1.SchemeGroupVersion, v1beta1)
	}
	if len(raw.Extenders) > 0 {
		return nil, fmt.Errorf("%d extenders, which are not simulated", len(raw.Extenders))
	}
	c := &Config{schedulers: map[string]scheduler{}}
	if len(raw.Profiles) == 0 {
		raw.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	for i := range raw.Profiles {
		p := &raw.Profiles[i]
		name := corev1.DefaultSchedulerName
		if p.SchedulerName != nil {
			name = *p.SchedulerName
		}
		if _, ok := c.schedulers[name]; ok {
			return nil, fmt.Errorf("two profiles for scheduler %s", name)
		}
		s, err := parseProfile(p, old)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", name, err)
		}
		c.schedulers[name] = s
		c.names = append(c.names, name)
	}
	return c, nil
}

// enabled is a plugin of a profile.
type enabled struct {
	name   string
	at     points
	weight int32
}

// profileState lists the plugins of a profile in execution order.
type profileState []enabled

func (s *profileState) enable(name string, at points, weight *int32) error {
	k, ok := plugins[name]
	switch {
	case !ok:
		return fmt.Errorf("unknown plugin %q; known are %s", name, knownNames())
	case k.refused:
		return fmt.Errorf("plugin %s of Simon is not simulated; known are %s", name, knownNames())
	}
	i := slices.IndexFunc(*s, func(e enabled) bool { return e.name == name })
	if i < 0 {
		i = len(*s)
		*s = append(*s, enabled{name: name, weight: 1})
	}
	(*s)[i].at |= at & k.does
	if weight != nil && *weight < 0 {
		return fmt.Errorf("plugin %s has weight %d, want more than 0", name, *weight)
	}
	if at&score != 0 { // without a weight it is 1, also of a default plugin, as in kube-scheduler
		(*s)[i].weight = 1
		if weight != nil {
			(*s)[i].weight = cmp.Or(*weight, 1)
		}
	}
	return nil
}

func (s *profileState) disable(name string, at points) error {
	if _, ok := plugins[name]; !ok && name != "*" {
		return fmt.Errorf("unknown plugin %q is disabled; known are %s", name, knownNames())
	}
	for i := range *s {
		if e := &(*s)[i]; name == "*" || e.name == name {
			e.at &^= at
		}
	}
	return nil
}

func knownNames() string {
	var names []string
	for name, k := range plugins {
		if !k.ignored && !k.refused {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// parseProfile reads a profile of version v1, or of an older one.
func parseProfile(p *configv1.KubeSchedulerProfile, old bool) (scheduler, error) {
	var s profileState
	defaults := gpushare.KubePlugins
	if old {
		defaults = v1beta1Plugins
	}
	for _, d := range defaults {
		if err := s.enable(d.Name, allPoints, new(int32(d.Weight))); err != nil {
			return scheduler{}, err
		}
	}
	if p.Plugins != nil {
		if m := p.Plugins.MultiPoint; old && len(m.Enabled)+len(m.Disabled) > 0 {
			return scheduler{}, fmt.Errorf("multiPoint is not of %s: want %s", v1beta1, configv1.SchemeGroupVersion)
		}
		for _, set := range []struct {
			set *configv1.PluginSet
			at  points
		}{
			{&p.Plugins.MultiPoint, allPoints}, {&p.Plugins.Filter, filter}, {&p.Plugins.PreScore, preScore},
			{&p.Plugins.Score, score}, {&p.Plugins.Reserve, reserve},
		} {
			if err := s.apply(set.set, set.at); err != nil {
				return scheduler{}, err
			}
		}
	}
	return s.scheduler(p.PluginConfig)
}

// apply disables and enables the plugins of a set. Filters stay on, because they decide where a pod can run.
func (s *profileState) apply(set *configv1.PluginSet, at points) error {
	for _, d := range set.Disabled {
		if at == filter && d.Name != "*" {
			return fmt.Errorf("plugin %s is disabled at filter, and filters cannot be turned off here", d.Name)
		}
		if err := s.disable(d.Name, at&^filter); err != nil {
			return err
		}
	}
	for _, e := range set.Enabled {
		if err := s.enable(e.Name, at, e.Weight); err != nil {
			return err
		}
	}
	return nil
}

// scheduler checks that plugins are enabled at all extension points that they need.
func (s profileState) scheduler(args []configv1.PluginConfig) (scheduler, error) {
	out := scheduler{profile: gpushare.Profile{Devices: "BestFit"}}
	strategy, err := fitStrategy(args)
	if err != nil {
		return out, err
	}
	share, err := simonArgs(args)
	if err != nil {
		return out, err
	}
	for _, e := range s {
		k := plugins[e.name]
		if e.at&reserve != 0 && out.reserve == "" {
			out.reserve = e.name
		}
		if e.at&score == 0 || k.ignored {
			continue
		}
		if missing := k.needs &^ e.at; missing != 0 {
			return out, fmt.Errorf("plugin %s is enabled at score but not at %s, and %s: enable it at %[2]s too, or at multiPoint", e.name, missing, k.why)
		}
		sp := gpushare.ScorePlugin{Name: cmp.Or(k.as, e.name), Weight: int64(e.weight), Strategy: k.strategy}
		if e.name == "NodeResourcesFit" {
			sp.Strategy = strategy
		}
		out.profile.Plugins = append(out.profile.Plugins, sp)
	}
	switch k := plugins[out.reserve]; {
	case out.reserve == openGPUShare:
		out.profile.Devices = share
	case k.policy:
		out.profile.Devices = out.reserve
	}
	return out, nil
}

// fitStrategy reads the arguments of NodeResourcesFit. No other arguments of kube-scheduler's plugins are
// simulated.
func fitStrategy(args []configv1.PluginConfig) (*gpushare.Strategy, error) {
	var out *gpushare.Strategy
	for _, a := range args {
		if _, ok := simonPlugins[a.Name]; ok || a.Name == openGPUShare {
			continue
		}
		if a.Name != "NodeResourcesFit" {
			return nil, fmt.Errorf("pluginConfig of %s: only those of NodeResourcesFit and of Simon's plugins are simulated", a.Name)
		}
		var fit configv1.NodeResourcesFitArgs
		if err := yaml.UnmarshalStrict(a.Args.Raw, &fit); err != nil {
			return nil, fmt.Errorf("pluginConfig of %s: %w", a.Name, err)
		}
		if fit.ScoringStrategy == nil {
			continue
		}
		s := &gpushare.Strategy{Type: string(fit.ScoringStrategy.Type), CPUWeight: 1, MemoryWeight: 1}
		if len(fit.ScoringStrategy.Resources) > 0 {
			s.CPUWeight, s.MemoryWeight = 0, 0
		}
		for _, r := range fit.ScoringStrategy.Resources {
			weight := cmp.Or(r.Weight, 1)
			if weight < 1 || weight > 100 {
				return nil, fmt.Errorf("pluginConfig of %s: weight %d of %s, want 1 to 100", a.Name, weight, r.Name)
			}
			switch r.Name {
			case "cpu":
				s.CPUWeight = weight
			case "memory":
				s.MemoryWeight = weight
			default:
				return nil, fmt.Errorf("pluginConfig of %s: resource %s, want cpu or memory", a.Name, r.Name)
			}
		}
		if fit.ScoringStrategy.RequestedToCapacityRatio != nil {
			for _, p := range fit.ScoringStrategy.RequestedToCapacityRatio.Shape {
				s.Shape = append(s.Shape, kubescore.ShapePoint{Utilization: int64(p.Utilization), Score: int64(p.Score)})
			}
		}
		out = s
	}
	return out, nil
}

// Profiles returns the profiles of the schedulers that the pods of w name. It is an error if a scheduler has no
// profile, or if pods request GPUs and no plugin chooses their devices.
func (c *Config) Profiles(w *Workload) ([]gpushare.Profile, error) {
	var profiles []gpushare.Profile
	for _, name := range w.Schedulers {
		s, ok := c.schedulers[name]
		if !ok && name == corev1.DefaultSchedulerName { // Simon sets its own scheduler for pods that name none
			s, ok = c.schedulers[simonScheduler]
		}
		if !ok {
			return nil, fmt.Errorf("pods ask for scheduler %s, and there are profiles for %s", name, strings.Join(c.names, ", "))
		}
		if w.HasGPU() && s.reserve == "" {
			return nil, fmt.Errorf("pods request GPUs and no plugin of scheduler %s chooses devices: enable %s or a policy at reserve, or at multiPoint",
				name, gpuShare)
		}
		profiles = append(profiles, s.profile)
	}
	return profiles, nil
}
