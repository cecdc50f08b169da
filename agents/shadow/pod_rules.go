package shadow

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// podRules holds the constraints of a template's pods on other pods: affinity, anti-affinity and topology spread. Other
// templates are given by number.
type podRules struct {
	*clustertrace.PodRules
	affinity     []int32   // templates that all terms of Affinity select
	self         bool      // affinity contains the template itself
	antiAffinity [][]int32 // templates that each term of AntiAffinity selects
	counts       [][]int32 // templates that count in each constraint of DoNotSchedule
	adds         []int     // pods by which one of the template raises each count

	existingAntiAffinity []existingTerm         // anti-affinity of running pods to this template
	preferred            [][]int32              // templates that each term of Preferred selects
	existingPreferred    []existingPreference   // preferred affinity and anti-affinity of running pods to this template
	scheduleAnyway       [][]int32              // templates that count in each constraint of ScheduleAnyway
	nodes                *clustertrace.Template // has the node selector and required node affinity only
}

// existingTerm is a required anti-affinity term of a template's running pods.
type existingTerm struct {
	template int32
	topology string
}

// existingPreference is a weighted affinity term of a template's running pods.
type existingPreference struct {
	template int32
	topology string
	weight   int64
}

// readPodRules reads the constraints on other pods of all templates.
func (h *history) readPodRules() error {
	h.podRules = make([]*podRules, len(h.templates))
	for i, t := range h.templates {
		rules, err := t.PodRules()
		if err != nil {
			return fmt.Errorf("shadow: template %d: %w", i, err)
		}
		if rules != nil {
			h.podRules[i] = &podRules{PodRules: rules}
			h.interPod = h.interPod || rules.Required() || rules.Prefers()
		}
	}
	for i, b := range h.podRules {
		if b == nil {
			continue
		}
		t := h.templates[i]
		b.nodes = &clustertrace.Template{NodeSelector: t.NodeSelector, Required: t.Required, Tolerations: []clustertrace.Toleration{{Operator: "Exists"}}}
		b.affinity = h.selected(func(u *clustertrace.Template) bool { return len(b.Affinity) > 0 && selectsAll(b.Affinity, u) })
		b.self = selectsAll(b.Affinity, t)
		for k := range b.AntiAffinity {
			of := h.selected(b.AntiAffinity[k].Selects)
			b.antiAffinity = append(b.antiAffinity, of)
			for _, u := range of {
				v := h.ensurePodRules(u)
				v.existingAntiAffinity = append(v.existingAntiAffinity, existingTerm{int32(i), b.AntiAffinity[k].Topology})
			}
		}
		h.readPreferences(int32(i), b)
		for k := range b.DoNotSchedule {
			b.counts = append(b.counts, h.selected(b.DoNotSchedule[k].Counts))
			b.adds = append(b.adds, b.DoNotSchedule[k].Adds(t))
		}
	}
	return nil
}

// ensurePodRules returns the rules of a template, and makes empty ones if there are none.
func (h *history) ensurePodRules(template int32) *podRules {
	if h.podRules[template] == nil {
		h.podRules[template] = &podRules{PodRules: &clustertrace.PodRules{}}
	}
	return h.podRules[template]
}

func selectsAll(terms []clustertrace.PodTerm, t *clustertrace.Template) bool {
	for i := range terms {
		if !terms[i].Selects(t) {
			return false
		}
	}
	return true
}

// selected returns the templates for which selects is true.
func (h *history) selected(selects func(*clustertrace.Template) bool) (all []int32) {
	for i, t := range h.templates {
		if selects(t) {
			all = append(all, int32(i))
		}
	}
	return all
}

// domain is a topology domain: a label of nodes and its value.
type domain struct{ key, value string }

// occupied adds to all the domains of label key in which pods of the templates run.
func (w *world) occupied(all map[domain]bool, key string, templates ...int32) {
	for _, t := range templates {
		for n := range w.podsByNode[t] {
			if info := w.nodes[n].info; info != nil {
				if v, ok := info.Labels[key]; ok {
					all[domain{key, v}] = true
				}
			}
		}
	}
}

// interPodFilter returns a function that reports whether constraints on other pods exclude node n for pods of a
// template; nil if there are no constraints.
//
// Source: the Filter of plugins InterPodAffinity and PodTopologySpread of kube-scheduler.
func (w *world) interPodFilter(template int32) func(n int32) bool {
	b := w.history.podRules[template]
	if b == nil || !b.Required() && len(b.existingAntiAffinity) == 0 {
		return nil
	}
	closed := map[domain]bool{}
	for k := range b.AntiAffinity {
		w.occupied(closed, b.AntiAffinity[k].Topology, b.antiAffinity[k]...)
	}
	for _, s := range b.existingAntiAffinity {
		w.occupied(closed, s.topology, s.template)
	}
	near := map[domain]bool{}
	for k := range b.Affinity {
		w.occupied(near, b.Affinity[k].Topology, b.affinity...)
	}
	first := len(near) == 0 && b.self // the first of a group of pods with affinity to one another
	spread := w.skews(template, b)
	return func(n int32) bool {
		labels := w.nodes[n].info.Labels
		for k := range b.Affinity {
			if v, ok := labels[b.Affinity[k].Topology]; !ok || !first && !near[domain{b.Affinity[k].Topology, v}] {
				return true
			}
		}
		if len(closed) > 0 {
			for key, v := range labels {
				if closed[domain{key, v}] {
					return true
				}
			}
		}
		for k := range spread {
			if v, ok := labels[b.DoNotSchedule[k].Topology]; !ok || spread[k].pods[v]+b.adds[k]-spread[k].least > int(b.DoNotSchedule[k].MaxSkew) {
				return true
			}
		}
		return false
	}
}

// skew counts the pods of a topology spread constraint by domain.
type skew struct {
	pods  map[string]int
	least int // fewest in a domain
}

// skews counts the pods of each topology spread constraint of a template.
func (w *world) skews(template int32, b *podRules) []skew {
	all := make([]skew, len(b.DoNotSchedule))
	for k := range all {
		c, pods := &b.DoNotSchedule[k], map[string]int{}
		for _, n := range w.order {
			if !w.eligible(template, b, b.DoNotSchedule, c, n) {
				continue
			}
			v := w.nodes[n].info.Labels[c.Topology]
			pods[v] += 0 // domains without pods count too
			for _, t := range b.counts[k] {
				pods[v] += w.podsByNode[t][n]
			}
		}
		all[k] = skew{pods, 0}
		if len(pods) >= int(c.MinDomains) {
			all[k].least = math.MaxInt32
			for _, have := range pods {
				all[k].least = min(all[k].least, have)
			}
		}
	}
	return all
}

// eligible reports whether a node counts for a topology spread constraint: it has the topology labels of all
// constraints, and satisfies the node inclusion policies.
func (w *world) eligible(template int32, b *podRules, all []clustertrace.Skew, c *clustertrace.Skew, n int32) bool {
	info := w.nodes[n].info
	if !hasLabels(info, all) {
		return false
	}
	if c.HonorTaints && !w.templates[template].Tolerates(info) {
		return false
	}
	return !c.HonorNodes || b.nodes.Admits(info)
}

// hasLabels reports whether a node has the topology labels of all constraints.
func hasLabels(n *clustertrace.Node, all []clustertrace.Skew) bool {
	for k := range all {
		if _, ok := n.Labels[all[k].Topology]; !ok {
			return false
		}
	}
	return true
}

// countPods adds by to the number of pods of a template on a node.
func (w *world) countPods(template, n int32, by int) {
	if w.podsByNode[template] == nil {
		w.podsByNode[template] = map[int32]int{}
	}
	if w.podsByNode[template][n] += by; w.podsByNode[template][n] == 0 {
		delete(w.podsByNode[template], n)
	}
}

// dependsOnPods returns 1 if the start of another pod may make a node feasible for pod p, otherwise 0.
func (w *world) dependsOnPods(p int32) int {
	if b := w.history.podRules[w.pods[p].template]; b != nil && len(b.Affinity)+len(b.DoNotSchedule) > 0 {
		return 1
	}
	return 0
}
