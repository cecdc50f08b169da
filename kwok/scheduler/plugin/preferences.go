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

// stated are the score plugins of what users state they prefer, and ours are those of kube-scheduler's
// own aims, each with its default weight.
var (
	stated = []config.Plugin{{Name: names.NodeAffinity, Weight: 2}, {Name: names.TaintToleration, Weight: 3}, {Name: names.PodTopologySpread, Weight: 2}, {Name: names.InterPodAffinity, Weight: 2}}
	own    = []config.Plugin{{Name: names.NodeResourcesFit, Weight: 1}, {Name: names.NodeResourcesBalancedAllocation, Weight: 1}, {Name: names.ImageLocality, Weight: 1}}
)

// openScores opens the scores that go before the policy, and those that decide in its place.
func (p *Plugin) openScores(ctx context.Context) (err error) {
	if p.defaults, err = newScores(ctx, p.handle, slices.Concat(stated, own), true); err != nil {
		return err
	}
	switch p.args.Order {
	case schedulerconfig.OrderTiebreak:
		p.preferences = p.defaults
	case schedulerconfig.OrderRespect:
		p.preferences, err = newScores(ctx, p.handle, stated, false)
	}
	return err
}

// newScores returns score plugins of kube-scheduler, over its snapshot. defaultSpread says whether pods that state no
// topology spread have kube-scheduler's default one.
func newScores(ctx context.Context, h fwk.Handle, scores []config.Plugin, defaultSpread bool) (framework.Framework, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := config.KubeSchedulerProfile{SchedulerName: h.ProfileName(), PluginConfig: defaults.Profiles[0].PluginConfig}
	set := config.PluginSet{Enabled: scores}
	if !defaultSpread {
		for i := range profile.PluginConfig { // kube-scheduler's default spreading is nobody's stated preference
			if args, ok := profile.PluginConfig[i].Args.(*config.PodTopologySpreadArgs); ok {
				args.DefaultingType = config.ListDefaulting
			}
		}
	}
	preScore := config.PluginSet{}
	for _, p := range set.Enabled {
		if p.Name != names.ImageLocality { // has none
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

// prefer scores the nodes; nil says that nothing prefers any.
func (p *Plugin) prefer(ctx context.Context, pod *corev1.Pod, feasible []fwk.NodeInfo) ([]fwk.NodePluginScores, error) {
	if p.preferences == nil {
		return nil, nil
	}
	state := framework.NewCycleState()
	if s := p.preferences.RunPreScorePlugins(ctx, state, pod, feasible); !s.IsSuccess() {
		return nil, s.AsError()
	}
	if !discouraging(feasible) {
		skip := state.GetSkipScorePlugins()
		if skip == nil {
			skip = sets.New[string]()
		}
		state.SetSkipScorePlugins(skip.Union(sets.New(names.TaintToleration)))
	}
	if p.args.Order == schedulerconfig.OrderRespect && state.GetSkipScorePlugins().Len() == len(stated) {
		return nil, nil
	}
	scores, s := p.preferences.RunScorePlugins(ctx, state, pod, feasible)
	return scores, s.AsError()
}

// othersScore reports whether the profile has score plugins beside this one.
func (p *Plugin) othersScore() bool {
	of, ok := p.handle.(framework.Framework)
	return ok && len(of.ListPlugins().Score.Enabled) > 1
}

// byDefault returns kube-scheduler's default scores as a decision without a node of the policy's: the nodes of the
// best sum, and they alone, have 100, so that kube-scheduler chooses among these as without the plugin.
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

// discouraging reports whether some node has a taint PreferNoSchedule.
func discouraging(nodes []fwk.NodeInfo) bool {
	for _, n := range nodes {
		for i := range n.Node().Spec.Taints {
			if n.Node().Spec.Taints[i].Effect == corev1.TaintEffectPreferNoSchedule {
				return true
			}
		}
	}
	return false
}
