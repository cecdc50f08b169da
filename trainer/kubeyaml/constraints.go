package kubeyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// constraints reads what a pod thinks of each node.
func (c *converter) constraints(p *corev1.Pod, r *gpu.Request) error {
	required := nodeaffinity.GetRequiredNodeAffinity(p)
	var preferred *nodeaffinity.PreferredSchedulingTerms
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		var err error
		if preferred, err = nodeaffinity.NewPreferredSchedulingTerms(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution); err != nil {
			return err
		}
		r.Affinity = make([]int64, len(c.objects.Nodes))
	}
	refusals, taints := make([]string, len(c.objects.Nodes)), make([]int64, len(c.objects.Nodes))
	for i := range c.objects.Nodes {
		n := &c.objects.Nodes[i]
		match, err := required.Match(n)
		if err != nil {
			return err
		}
		refusals[i], taints[i] = refusal(p, n, match)
		if preferred != nil {
			r.Affinity[i] = preferred.Score(n)
		}
	}
	if slices.ContainsFunc(refusals, func(why string) bool { return why != "" }) {
		r.Refusals = refusals
	}
	if slices.Max(taints) > 0 {
		r.Taints = taints
	}
	c.images(p, r)
	return c.spread(p, r)
}

// refusal returns why a node is closed to a pod, or "", and the number of its taints
// PreferNoSchedule that the pod does not tolerate.
func refusal(p *corev1.Pod, n *corev1.Node, match bool) (why string, taints int64) {
	for _, t := range n.Spec.Taints {
		taint := cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.TaintEffect(t.Effect)}
		tolerated := slices.ContainsFunc(p.Spec.Tolerations, func(tol corev1.Toleration) bool {
			t := cluster.Toleration{
				Key: tol.Key, Operator: cluster.TolerationOperator(tol.Operator), Value: tol.Value, Effect: cluster.TaintEffect(tol.Effect),
			}
			return t.Tolerates(&taint)
		})
		switch {
		case tolerated:
		case t.Effect == corev1.TaintEffectPreferNoSchedule:
			taints++
		default:
			why = fmt.Sprintf("untolerated taint %s", t.Key)
		}
	}
	switch {
	case n.Spec.Unschedulable:
		return "node unschedulable", taints
	case !match:
		return "node affinity or selector not matched", taints
	}
	return why, taints
}

// images scores the nodes by ImageLocality.
func (c *converter) images(p *corev1.Pod, r *gpu.Request) {
	nodes := c.objects.Nodes
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
		return
	}
	r.Images = make([]int64, len(nodes))
	for i := range nodes {
		r.Images[i] = kubescore.ImageLocality(have[i], len(nodes), len(spec))
	}
}

// imageName adds the tag that a name without one stands for.
func imageName(name string) string {
	if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
		return name + ":latest"
	}
	return name
}

// spread reads the topology spread constraints, or for a replica without any those that
// kube-scheduler has by default.
func (c *converter) spread(p *corev1.Pod, r *gpu.Request) error {
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
		r.Spread = append(r.Spread, gpu.Spread{
			Counter: c.byKey[ns+" "+sel.String()], Domain: c.domains(sc.TopologyKey), MaxSkew: int(sc.MaxSkew),
		})
	}
	if o := owner(p); o != "" && len(r.Spread) == 0 {
		k := c.byKey[ns+" "+o]
		r.Spread = []gpu.Spread{
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
