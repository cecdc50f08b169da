package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
)

// shown is the snapshot of kube-scheduler's filters, which the test replaces.
type shown struct{ *cache.Snapshot }

// newFilters returns kube-scheduler's filters of what pods say about nodes and other pods.
func newFilters(t *testing.T) (*shown, framework.Framework) {
	t.Helper()
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	set := config.PluginSet{Enabled: []config.Plugin{{Name: names.NodeAffinity}, {Name: names.TaintToleration}, {Name: names.PodTopologySpread}, {Name: names.InterPodAffinity}}}
	before := config.PluginSet{Enabled: []config.Plugin{{Name: names.NodeAffinity}, {Name: names.PodTopologySpread}, {Name: names.InterPodAffinity}}}
	profile := config.KubeSchedulerProfile{SchedulerName: "test", PluginConfig: defaults.Profiles[0].PluginConfig, Plugins: &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}}, Bind: config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
		PreFilter: before, Filter: set,
	}}
	metrics.Register()
	client := fake.NewClientset()
	s := &shown{cache.NewEmptySnapshot()}
	f, err := frameworkruntime.NewFramework(t.Context(), plugins.NewInTreeRegistry(), &profile, frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)), frameworkruntime.WithSnapshotSharedLister(s))
	if err != nil {
		t.Fatal(err)
	}
	return s, f
}

// feasible returns by node whether kube-scheduler's filters let a pod go there, beside the pods that have nodes, and its
// scores of what users prefer leave the node to the policy.
func feasible(ctx context.Context, t *testing.T, s *shown, f framework.Framework, nodes []*corev1.Node, placed []*corev1.Pod, pod *corev1.Pod) []bool {
	t.Helper()
	s.Snapshot = cache.NewSnapshot(placed, nodes)
	state := framework.NewCycleState()
	open := make([]bool, len(nodes))
	_, status, _ := f.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() && !status.IsSkip() {
		if !status.IsRejected() {
			t.Fatal(status.AsError())
		}
		return open
	}
	var fitting []fwk.NodeInfo
	for _, n := range nodes {
		info, err := s.Snapshot.Get(n.Name)
		if err != nil {
			t.Fatal(err)
		}
		if f.RunFilterPlugins(ctx, state, pod, info).IsSuccess() {
			fitting = append(fitting, info)
		}
	}
	if len(fitting) == 0 {
		return open
	}
	preferences, err := newScores(ctx, f, preferenceScores, false)
	if err != nil {
		t.Fatal(err)
	}
	margin := int64(schedulerconfig.DefaultMargin)
	p := Plugin{preferences: preferences, args: schedulerconfig.Args{Order: schedulerconfig.OrderRespect, Margin: &margin}}
	names, err := p.preferred(ctx, pod, fitting)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		open[i] = slices.Contains(names, n.Name)
	}
	return open
}

// choice is a policy of tests.
type choice func(s *cluster.State, d envs.Decision) int32

func (c choice) Choose(_ context.Context, s *cluster.State, d envs.Decision) (shadow.Choice, error) {
	return shadow.Choice{Node: c(s, d)}, nil
}

// TestShadowKeepsRules plays random pods with required and preferred affinity, anti-affinity, topology spread, taints and node
// selectors in package shadow. The nodes that are open to each are those that kube-scheduler's own filters leave and its scores
// prefer, and pods that wait at the end have none.
func TestShadowKeepsRules(t *testing.T) {
	s, f := newFilters(t)
	closed, asked, waited := 0, 0, 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		nodes, pods := randomNodes(rng), randomPods(rng, 40)
		var placed []*corev1.Pod
		policy := shadow.Policy{Name: "random", Open: func() (shadow.Chooser, func() error, error) {
			return choice(func(state *cluster.State, d envs.Decision) int32 {
				pod := pods[state.Pods[d.Pod].Requests.MemoryBytes-1]
				want, got := feasible(t.Context(), t, s, f, nodes, placed, pod), make([]bool, len(nodes))
				state.FitMask(d.Pod, got)
				if !slices.Equal(got, want) {
					text, _ := json.Marshal(pod)
					t.Fatalf("seed %d: pod %s may go to %v, kube-scheduler says %v\n%s", seed, pod.Name, got, want, text)
				}
				var fitting []int32
				for i, ok := range want {
					if ok {
						fitting = append(fitting, int32(i))
					} else {
						closed++
					}
				}
				asked++
				node := fitting[rng.IntN(len(fitting))]
				there := pod.DeepCopy()
				there.Spec.NodeName = nodes[node].Name
				placed = append(placed, there)
				return node
			}), func() error { return nil }, nil
		}}
		if _, err := shadow.Run(t.Context(), recordingOf(t, nodes, pods), shadow.Options{Policies: []shadow.Policy{policy}}); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			if slices.ContainsFunc(placed, func(p *corev1.Pod) bool { return p.UID == pod.UID }) {
				continue
			}
			waited++
			if open := feasible(t.Context(), t, s, f, nodes, placed, pod); slices.Contains(open, true) {
				t.Errorf("seed %d: pod %s waits, and kube-scheduler lets it go to %v", seed, pod.Name, open)
			}
		}
	}
	if closed < asked || waited < 30 || asked < 500 {
		t.Errorf("%d decisions, %d nodes closed, %d pods waited: want more of each", asked, closed, waited)
	}
}

func randomNodes(rng *rand.Rand) (nodes []*corev1.Node) {
	seldom := rng.IntN(3) == 0 // clusters with taints PreferNoSchedule
	for i := range 6 {
		name := fmt.Sprintf("node-%d", i)
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, "disk": []string{"ssd", "hdd"}[rng.IntN(2)]}}}
		if rng.IntN(6) > 0 {
			n.Labels["zone"] = []string{"x", "y", "z"}[rng.IntN(3)]
		}
		if rng.IntN(5) == 0 {
			n.Spec.Taints = []corev1.Taint{{Key: "slow", Effect: corev1.TaintEffectNoSchedule}}
		}
		if seldom && rng.IntN(3) == 0 {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "old", Effect: corev1.TaintEffectPreferNoSchedule})
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func randomPods(rng *rand.Rand, n int) (pods []*corev1.Pod) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	selector := func() *metav1.LabelSelector {
		switch rng.IntN(8) {
		case 0:
			return nil
		case 1:
			return &metav1.LabelSelector{}
		case 2:
			return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick("a", "b")}}}}
		case 3:
			return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}}
		}
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick("a", "b", "c")}}
	}
	terms := func() (all []corev1.PodAffinityTerm) {
		for range 1 + rng.IntN(2) {
			t := corev1.PodAffinityTerm{TopologyKey: pick(corev1.LabelHostname, "zone", "disk"), LabelSelector: selector()}
			switch rng.IntN(5) {
			case 0:
				t.Namespaces = []string{"other"}
			case 1:
				t.NamespaceSelector = &metav1.LabelSelector{}
			}
			all = append(all, t)
		}
		return all
	}
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick("default", "default", "other"), Name: name, UID: types.UID(name), Labels: map[string]string{"app": pick("a", "b", "c")}}}
		if rng.IntN(3) == 0 {
			p.Labels["tier"] = "web"
		}
		p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(int64(i)+1, resource.BinarySI)}}}}
		if rng.IntN(4) == 0 {
			p.Spec.NodeSelector = map[string]string{"disk": pick("ssd", "hdd")}
		}
		if rng.IntN(3) == 0 {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "slow", Operator: corev1.TolerationOpExists}}
		}
		if rng.IntN(4) == 0 {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "old", Operator: corev1.TolerationOpExists})
		}
		a := &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}, NodeAffinity: &corev1.NodeAffinity{}}
		p.Spec.Affinity = a
		weighted := func() (all []corev1.WeightedPodAffinityTerm) {
			for _, term := range terms() {
				all = append(all, corev1.WeightedPodAffinityTerm{Weight: 1 + rng.Int32N(100), PodAffinityTerm: term})
			}
			return all
		}
		switch rng.IntN(6) {
		case 0:
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = weighted()
		case 1:
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = weighted()
		case 2:
			for _, disk := range []string{"ssd", "hdd"} {
				a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
					Weight: 1 + rng.Int32N(100), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{disk}}}},
				})
			}
		}
		switch rng.IntN(4) {
		case 0:
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = terms()
		case 1:
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = terms()
		case 2:
			for range 1 + rng.IntN(2) {
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, randomSpread(rng, selector()))
			}
		}
		pods = append(pods, p)
	}
	return pods
}

func randomSpread(rng *rand.Rand, selector *metav1.LabelSelector) corev1.TopologySpreadConstraint {
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	policies := []*corev1.NodeInclusionPolicy{nil, &honor, &ignore}
	c := corev1.TopologySpreadConstraint{
		MaxSkew: 1 + rng.Int32N(2), TopologyKey: []string{corev1.LabelHostname, "zone", "disk"}[rng.IntN(3)], LabelSelector: selector,
		WhenUnsatisfiable:  []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway}[rng.IntN(3)],
		NodeAffinityPolicy: policies[rng.IntN(3)], NodeTaintsPolicy: policies[rng.IntN(3)],
	}
	if c.WhenUnsatisfiable == corev1.DoNotSchedule && rng.IntN(3) == 0 {
		c.MinDomains = new(int32)
		*c.MinDomains = 1 + rng.Int32N(4)
	}
	if selector != nil && rng.IntN(4) == 0 {
		c.MatchLabelKeys = []string{"tier"}
	}
	return c
}

// recordingOf is a recording of the nodes, to which a pod comes each minute. None is bound.
func recordingOf(t *testing.T, nodes []*corev1.Node, pods []*corev1.Pod) *shadow.Recording {
	t.Helper()
	raw := func(v any) json.RawMessage {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	r := &shadow.Recording{Header: clustertrace.Header{Format: clustertrace.Format, Version: clustertrace.Version, Start: time.Unix(0, 0)}}
	for i, n := range nodes {
		info := &clustertrace.Node{Name: n.Name, MilliCPU: 1000, MemoryBytes: 1 << 30, Pods: 110, Labels: n.Labels}
		for _, taint := range n.Spec.Taints {
			info.Taints = append(info.Taints, clustertrace.Taint{Key: taint.Key, Effect: string(taint.Effect)})
		}
		r.Events = append(r.Events, clustertrace.Event{Kind: clustertrace.AddNode, Node: int32(i), Info: info})
	}
	for i, p := range pods {
		spec := &clustertrace.Template{Namespace: p.Namespace, Labels: p.Labels, MemoryBytes: int64(i) + 1, NodeSelector: p.Spec.NodeSelector}
		for _, tol := range p.Spec.Tolerations {
			spec.Tolerations = append(spec.Tolerations, clustertrace.Toleration{Key: tol.Key, Operator: string(tol.Operator)})
		}
		spec.PodAffinity, spec.PodAntiAffinity = raw(p.Spec.Affinity.PodAffinity), raw(p.Spec.Affinity.PodAntiAffinity)
		for _, term := range p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			e := term.Preference.MatchExpressions[0]
			spec.Preferred = append(spec.Preferred, clustertrace.Preference{Weight: term.Weight, Term: clustertrace.Term{
				Labels: []clustertrace.Requirement{{Key: e.Key, Operator: string(e.Operator), Values: e.Values}},
			}})
		}
		if len(p.Spec.TopologySpreadConstraints) > 0 {
			spec.Spread = raw(p.Spec.TopologySpreadConstraints)
		}
		at := time.Duration(i) * time.Minute
		r.Events = append(r.Events, clustertrace.Event{Kind: clustertrace.AddTemplate, At: at, Template: int32(i), Spec: spec},
			clustertrace.Event{Kind: clustertrace.AddPod, At: at, Pod: int32(i), Template: int32(i), Name: p.Name})
	}
	r.Events = append(r.Events, clustertrace.Event{Kind: clustertrace.EndOfSegment, At: time.Duration(len(pods)) * time.Minute})
	return r
}
