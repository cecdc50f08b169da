package plugin

import (
	"context"
	"slices"

	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// preferenceScores are the score plugins for preferences that users state, and otherScores are
// kube-scheduler's other default score plugins, each with its default weight.
var (
	preferenceScores = []config.Plugin{{Name: names.NodeAffinity, Weight: 2}, {Name: names.TaintToleration, Weight: 3}, {Name: names.PodTopologySpread, Weight: 2}, {Name: names.InterPodAffinity, Weight: 2}}
	otherScores      = []config.Plugin{{Name: names.NodeResourcesFit, Weight: 1}, {Name: names.NodeResourcesBalancedAllocation, Weight: 1}, {Name: names.ImageLocality, Weight: 1}}
)

// openScores opens the scores that take precedence over the policy, and those that replace it.
func (p *Plugin) openScores(ctx context.Context) (err error) {
	if p.defaults, err = newScores(ctx, p.handle, slices.Concat(preferenceScores, otherScores), true); err != nil {
		return err
	}
	switch p.args.Order {
	case schedulerconfig.OrderTiebreak:
		p.preferences = p.defaults
	case schedulerconfig.OrderRespect:
		p.preferences, err = newScores(ctx, p.handle, preferenceScores, false)
	}
	return err
}

// newScores returns score plugins of kube-scheduler on its snapshot. With defaultSpread, pods without topology
// spread constraints get kube-scheduler's default ones.
func newScores(ctx context.Context, h fwk.Handle, scores []config.Plugin, defaultSpread bool) (framework.Framework, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := config.KubeSchedulerProfile{SchedulerName: h.ProfileName(), PluginConfig: defaults.Profiles[0].PluginConfig}
	set := config.PluginSet{Enabled: scores}
	if !defaultSpread {
		for i := range profile.PluginConfig { // no user has stated kube-scheduler's default spreading
			if args, ok := profile.PluginConfig[i].Args.(*config.PodTopologySpreadArgs); ok {
				args.DefaultingType = config.ListDefaulting
			}
		}
	}
	preScore := config.PluginSet{}
	for _, p := range set.Enabled {
		if p.Name != names.ImageLocality { // has no PreScore
			preScore.Enabled = append(preScore.Enabled, config.Plugin{Name: p.Name})
		}
	}
	profile.Plugins = &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}}, Bind: config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
		PreScore: preScore, Score: set,
	}
	return frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		frameworkruntime.WithClientSet(h.ClientSet()), frameworkruntime.WithKubeConfig(h.KubeConfig()), frameworkruntime.WithInformerFactory(h.SharedInformerFactory()),
		frameworkruntime.WithSnapshotSharedLister(h.SnapshotSharedLister()), frameworkruntime.WithEventRecorder(h.EventRecorder()))
}

// preferred returns the feasible nodes among which the policy may choose.
func (p *Plugin) preferred(ctx context.Context, pod *corev1.Pod, feasible []fwk.NodeInfo) ([]string, error) {
	scores, err := p.prefer(ctx, pod, feasible)
	if err != nil {
		return nil, err
	}
	margin := int64(0)
	if p.args.Order == schedulerconfig.OrderRespect {
		margin = *p.args.Margin
	}
	best := int64(0)
	for _, s := range scores {
		best = max(best, s.TotalScore)
	}
	open := make([]string, 0, len(feasible))
	for i, n := range feasible {
		if scores == nil || scores[i].TotalScore >= best-margin {
			open = append(open, n.Node().Name)
		}
	}
	return open, nil
}

// prefer scores the nodes; nil means that no preference applies.
func (p *Plugin) prefer(ctx context.Context, pod *corev1.Pod, feasible []fwk.NodeInfo) ([]fwk.NodePluginScores, error) {
	if p.preferences == nil {
		return nil, nil
	}
	state := framework.NewCycleState()
	if s := p.preferences.RunPreScorePlugins(ctx, state, pod, feasible); !s.IsSuccess() {
		return nil, s.AsError()
	}
	if !hasPreferNoSchedule(feasible) {
		skip := state.GetSkipScorePlugins()
		if skip == nil {
			skip = sets.New[string]()
		}
		state.SetSkipScorePlugins(skip.Union(sets.New(names.TaintToleration)))
	}
	if p.args.Order == schedulerconfig.OrderRespect && state.GetSkipScorePlugins().Len() == len(preferenceScores) {
		return nil, nil
	}
	scores, s := p.preferences.RunScorePlugins(ctx, state, pod, feasible)
	return scores, s.AsError()
}

// hasOtherScores reports whether the profile has score plugins besides this one.
func (p *Plugin) hasOtherScores() bool {
	of, ok := p.handle.(framework.Framework)
	return ok && len(of.ListPlugins().Score.Enabled) > 1
}

// byDefault returns kube-scheduler's default scores as a decision without a node. Only the nodes with the
// highest sum have 100, so that kube-scheduler chooses among these as it would without the plugin.
func (p *Plugin) byDefault(ctx context.Context, pod *corev1.Pod, feasible []fwk.NodeInfo) (*decision, error) {
	state := framework.NewCycleState()
	if s := p.defaults.RunPreScorePlugins(ctx, state, pod, feasible); !s.IsSuccess() {
		return nil, s.AsError()
	}
	scores, s := p.defaults.RunScorePlugins(ctx, state, pod, feasible)
	if !s.IsSuccess() {
		return nil, s.AsError()
	}
	best := int64(1)
	for i := range scores {
		best = max(best, scores[i].TotalScore)
	}
	d := &decision{index: make(map[string]int32, len(scores)), scores: make([]int64, len(scores))}
	for i, n := range feasible {
		d.index[n.Node().Name] = int32(i)
		if d.scores[i] = fwk.MaxNodeScore; scores[i].TotalScore < best {
			d.scores[i] = (fwk.MaxNodeScore - 1) * scores[i].TotalScore / best
		}
	}
	return d, nil
}

// hasPreferNoSchedule reports whether a node has a PreferNoSchedule taint.
func hasPreferNoSchedule(nodes []fwk.NodeInfo) bool {
	for _, n := range nodes {
		for i := range n.Node().Spec.Taints {
			if n.Node().Spec.Taints[i].Effect == corev1.TaintEffectPreferNoSchedule {
				return true
			}
		}
	}
	return false
}
