package shadow

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// between holds the constraints of a template's pods on other pods: affinity, anti-affinity and topology spread. Other
// templates are given by number.
type between struct {
	*clustertrace.Between
	near   []int32   // templates that all terms of Near select
	self   bool      // near contains the template itself
	apart  [][]int32 // templates that each term of Apart selects
	counts [][]int32 // templates that count in each constraint of Spread
	adds   []int     // pods by which one of the template raises each count

	existingApart  []existingTerm         // anti-affinity of running pods to this template
	prefer         [][]int32              // templates that each term of Prefer selects
	existingPrefer []existingPreference   // preferred affinity and anti-affinity of running pods to this template
	loose          [][]int32              // templates that count in each constraint of Loose
	nodes          *clustertrace.Template // has the node selector and required node affinity only
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

// readBetween reads the constraints on other pods of all templates.
func (h *history) readBetween() error {
	h.between = make([]*between, len(h.templates))
	for i, t := range h.templates {
		rules, err := t.Between()
		if err != nil {
			return fmt.Errorf("shadow: template %d: %w", i, err)
		}
		if rules != nil {
			h.between[i] = &between{Between: rules}
			h.interPod = h.interPod || rules.Required() || rules.Prefers()
		}
	}
	for i, b := range h.between {
		if b == nil {
			continue
		}
		t := h.templates[i]
		b.nodes = &clustertrace.Template{NodeSelector: t.NodeSelector, Required: t.Required, Tolerations: []clustertrace.Toleration{{Operator: "Exists"}}}
		b.near = h.selected(func(u *clustertrace.Template) bool { return len(b.Near) > 0 && selectsAll(b.Near, u) })
		b.self = selectsAll(b.Near, t)
		for k := range b.Apart {
			of := h.selected(b.Apart[k].Selects)
			b.apart = append(b.apart, of)
			for _, u := range of {
				v := h.ensureBetween(u)
				v.existingApart = append(v.existingApart, existingTerm{int32(i), b.Apart[k].Topology})
			}
		}
		h.readPreferences(int32(i), b)
		for k := range b.Spread {
			b.counts = append(b.counts, h.selected(b.Spread[k].Counts))
			b.adds = append(b.adds, b.Spread[k].Adds(t))
		}
	}
	return nil
}

// ensureBetween returns the between of a template, and makes an empty one if there is none.
func (h *history) ensureBetween(template int32) *between {
	if h.between[template] == nil {
		h.between[template] = &between{Between: &clustertrace.Between{}}
	}
	return h.between[template]
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
	b := w.history.between[template]
	if b == nil || !b.Required() && len(b.existingApart) == 0 {
		return nil
	}
	closed := map[domain]bool{}
	for k := range b.Apart {
		w.occupied(closed, b.Apart[k].Topology, b.apart[k]...)
	}
	for _, s := range b.existingApart {
		w.occupied(closed, s.topology, s.template)
	}
	near := map[domain]bool{}
	for k := range b.Near {
		w.occupied(near, b.Near[k].Topology, b.near...)
	}
	first := len(near) == 0 && b.self // the first of a group of pods with affinity to one another
	spread := w.skews(template, b)
	return func(n int32) bool {
		labels := w.nodes[n].info.Labels
		for k := range b.Near {
			if v, ok := labels[b.Near[k].Topology]; !ok || !first && !near[domain{b.Near[k].Topology, v}] {
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
			if v, ok := labels[b.Spread[k].Topology]; !ok || spread[k].pods[v]+b.adds[k]-spread[k].least > int(b.Spread[k].MaxSkew) {
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
func (w *world) skews(template int32, b *between) []skew {
	all := make([]skew, len(b.Spread))
	for k := range all {
		c, pods := &b.Spread[k], map[string]int{}
		for _, n := range w.order {
			if !w.eligible(template, b, b.Spread, c, n) {
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
func (w *world) eligible(template int32, b *between, all []clustertrace.Skew, c *clustertrace.Skew, n int32) bool {
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
	if b := w.history.between[w.pods[p].template]; b != nil && len(b.Near)+len(b.Spread) > 0 {
		return 1
	}
	return 0
}
