package kubeyaml

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// constraints reads a pod's constraints on each node.
func (c *converter) constraints(p *corev1.Pod, r *gpushare.Request) error {
	terms, err := ReadTerms(p)
	if err != nil {
		return err
	}
	if terms.preferred != nil {
		r.Affinity = make([]int64, len(c.nodes))
	}
	refusals, taints := make([]string, len(c.nodes)), make([]int64, len(c.nodes))
	for i, n := range c.nodes {
		if refusals[i], err = terms.Refusal(n); err != nil {
			return err
		}
		taints[i] = terms.Taints(n)
		if terms.preferred != nil {
			r.Affinity[i] = terms.Affinity(n)
		}
	}
	if slices.ContainsFunc(refusals, func(why string) bool { return why != "" }) {
		r.Refusals = refusals
	}
	if slices.Max(taints) > 0 {
		r.Taints = taints
	}
	r.Images = Images(p, c.nodes)
	return c.spread(p, r)
}

// Terms holds a pod's requirements and preferences for nodes.
type Terms struct {
	pod       *corev1.Pod
	required  nodeaffinity.RequiredNodeAffinity
	preferred *nodeaffinity.PreferredSchedulingTerms // nil: none
}

// ReadTerms reads the terms of a pod.
func ReadTerms(p *corev1.Pod) (*Terms, error) {
	t := &Terms{pod: p, required: nodeaffinity.GetRequiredNodeAffinity(p)}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		var err error
		if t.preferred, err = nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Refusal returns why a node cannot run the pod, regardless of its free resources, or "".
func (t *Terms) Refusal(n *corev1.Node) (string, error) {
	match, err := t.required.Match(n)
	switch {
	case err != nil:
		return "", err
	case n.Spec.Unschedulable && !t.tolerates(&corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}):
		return "node unschedulable", nil
	case !match:
		return "node affinity or selector not matched", nil
	}
	for i := range n.Spec.Taints {
		if taint := &n.Spec.Taints[i]; taint.Effect != corev1.TaintEffectPreferNoSchedule && !t.tolerates(taint) {
			return "untolerated taint " + taint.Key, nil
		}
	}
	return "", nil
}

// Taints counts the node's PreferNoSchedule taints that the pod does not tolerate.
func (t *Terms) Taints(n *corev1.Node) (count int64) {
	for i := range n.Spec.Taints {
		if taint := &n.Spec.Taints[i]; taint.Effect == corev1.TaintEffectPreferNoSchedule && !t.tolerates(taint) {
			count++
		}
	}
	return count
}

func (t *Terms) tolerates(taint *corev1.Taint) bool {
	same := cluster.Taint{Key: taint.Key, Value: taint.Value, Effect: cluster.TaintEffect(taint.Effect)}
	return slices.ContainsFunc(t.pod.Spec.Tolerations, func(tol corev1.Toleration) bool {
		t := cluster.Toleration{
			Key: tol.Key, Operator: cluster.TolerationOperator(tol.Operator), Value: tol.Value, Effect: cluster.TaintEffect(tol.Effect),
		}
		return t.Tolerates(&same)
	})
}

// Affinity returns the sum of the weights of the preferred terms that the node matches.
func (t *Terms) Affinity(n *corev1.Node) int64 {
	if t.preferred == nil {
		return 0
	}
	return t.preferred.Score(n)
}

// Images returns the nodes' ImageLocality scores, or nil if all are 0.
func Images(p *corev1.Pod, nodes []*corev1.Node) []int64 {
	spec := slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
	var have [][]kubescore.Image // by node
	for _, container := range spec {
		name := imageName(container.Image)
		var on []int
		sizes := map[int]int64{}
		for i := range nodes {
			for _, im := range nodes[i].Status.Images {
				if slices.ContainsFunc(im.Names, func(s string) bool { return imageName(s) == name }) {
					on, sizes[i] = append(on, i), im.SizeBytes
					break
				}
			}
		}
		if len(on) > 0 && have == nil {
			have = make([][]kubescore.Image, len(nodes))
		}
		for _, i := range on {
			have[i] = append(have[i], kubescore.Image{SizeBytes: sizes[i], NumNodes: len(on)})
		}
	}
	if have == nil {
		return nil
	}
	scores := make([]int64, len(nodes))
	for i := range nodes {
		scores[i] = kubescore.ImageLocality(have[i], len(nodes), len(spec))
	}
	return scores
}

// imageName adds the default tag to a name without one.
func imageName(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		return name + ":latest"
	}
	return name
}

// spread reads the topology spread constraints. A replica without any gets kube-scheduler's defaults.
func (c *converter) spread(p *corev1.Pod, r *gpushare.Request) error {
	ns := cmp.Or(p.Namespace, corev1.NamespaceDefault)
	for k := range c.selectors {
		if c.selectors[k].counts(p) {
			r.Counted = append(r.Counted, int32(k))
		}
	}
	for _, sc := range p.Spec.TopologySpreadConstraints {
		sel, err := metav1.LabelSelectorAsSelector(sc.LabelSelector)
		if err != nil {
			return err
		}
		r.Spread = append(r.Spread, gpushare.Spread{
			Counter: c.byKey[ns+" "+sel.String()], Domain: c.domains(sc.TopologyKey), MaxSkew: int(sc.MaxSkew),
		})
	}
	if o := owner(p); o != "" && len(r.Spread) == 0 {
		k := c.byKey[ns+" "+o]
		r.Spread = []gpushare.Spread{
			{Counter: k, MaxSkew: kubescore.DefaultHostnameMaxSkew, System: true},
			{Counter: k, Domain: c.domains(corev1.LabelTopologyZone), MaxSkew: kubescore.DefaultZoneMaxSkew, System: true},
		}
	}
	return nil
}

// domains numbers the values of a label of the nodes.
func (c *converter) domains(key string) []int32 {
	values := map[string]int32{}
	domain := make([]int32, len(c.objects.Nodes))
	for i := range c.objects.Nodes {
		v, ok := c.objects.Nodes[i].Labels[key]
		if !ok {
			domain[i] = -1
			continue
		}
		if _, ok := values[v]; !ok {
			values[v] = int32(len(values))
		}
		domain[i] = values[v]
	}
	return domain
}
