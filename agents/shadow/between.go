package shadow

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// between are the rules of a template's pods about other pods. Templates stand by number.
type between struct {
	*clustertrace.Between
	near   []int32   // templates that all terms of Near select
	self   bool      // the template is one of them
	apart  [][]int32 // templates that each term of Apart selects
	counts [][]int32 // templates that count in each constraint of Spread
	adds   []int     // what a pod adds to each constraint

	shunned []shun                 // rules of others that keep pods of this template away
	pulled  [][]int32              // templates that each term of Prefer selects
	drawn   []draw                 // terms of others that pull pods of this template, or push them away
	loose   [][]int32              // templates that count in each constraint of Loose
	nodes   *clustertrace.Template // refuses nodes by node selector and node affinity alone
}

// shun is a term of anti-affinity of a template's running pods.
type shun struct {
	by       int32
	topology string
}

// draw is a term of affinity of a template's running pods.
type draw struct {
	by       int32
	topology string
	weight   int64
}

// readBetween reads the rules between pods of all templates.
func (h *history) readBetween() error {
	h.between = make([]*between, len(h.templates))
	for i, t := range h.templates {
		rules, err := t.Between()
		if err != nil {
			return fmt.Errorf("shadow: template %d: %w", i, err)
		}
		if rules != nil {
			h.between[i] = &between{Between: rules}
			h.ruled = h.ruled || rules.Required() || rules.Prefers()
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
				v := h.rules(u)
				v.shunned = append(v.shunned, shun{int32(i), b.Apart[k].Topology})
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

// rules returns the rules of a template, which may be none but those of others about it.
func (h *history) rules(template int32) *between {
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

// selected returns the templates that are selected.
func (h *history) selected(selects func(*clustertrace.Template) bool) (all []int32) {
	for i, t := range h.templates {
		if selects(t) {
			all = append(all, int32(i))
		}
	}
	return all
}

// domain is a value of a label of nodes.
type domain struct{ key, value string }

// occupied returns the domains of a label in which pods of the templates run.
func (w *world) occupied(all map[domain]bool, key string, templates ...int32) {
	for _, t := range templates {
		for n := range w.where[t] {
			if info := w.nodes[n].info; info != nil {
				if v, ok := info.Labels[key]; ok {
					all[domain{key, v}] = true
				}
			}
		}
	}
}

// kept returns a function that reports whether rules between pods keep a pod of a template from a node; nil if there
// are none.
//
// Source: the Filter of plugins InterPodAffinity and PodTopologySpread of kube-scheduler.
func (w *world) kept(template int32) func(n int32) bool {
	b := w.history.between[template]
	if b == nil || !b.Required() && len(b.shunned) == 0 {
		return nil
	}
	closed := map[domain]bool{}
	for k := range b.Apart {
		w.occupied(closed, b.Apart[k].Topology, b.apart[k]...)
	}
	for _, s := range b.shunned {
		w.occupied(closed, s.topology, s.by)
	}
	near := map[domain]bool{}
	for k := range b.Near {
		w.occupied(near, b.Near[k].Topology, b.near...)
	}
	first := len(near) == 0 && b.self // of pods that want to be together
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

// skew is how the pods that a constraint counts are spread over domains.
type skew struct {
	pods  map[string]int
	least int // in a domain
}

// skews counts pods for each constraint of a template.
func (w *world) skews(template int32, b *between) []skew {
	all := make([]skew, len(b.Spread))
	for k := range all {
		c, pods := &b.Spread[k], map[string]int{}
		for _, n := range w.order {
			if !w.spreads(template, b, b.Spread, c, n) {
				continue
			}
			v := w.nodes[n].info.Labels[c.Topology]
			pods[v] += 0 // a domain without pods is one, too
			for _, t := range b.counts[k] {
				pods[v] += w.where[t][n]
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

// spreads reports whether a node counts in a constraint: it has the labels of all of the constraints, and the pod may
// be there as far as the constraint asks.
func (w *world) spreads(template int32, b *between, all []clustertrace.Skew, c *clustertrace.Skew, n int32) bool {
	info := w.nodes[n].info
	if !labelled(info, all) {
		return false
	}
	if c.HonorTaints && !w.templates[template].Tolerates(info) {
		return false
	}
	return !c.HonorNodes || b.nodes.Admits(info)
}

// labelled reports whether a node has the labels of all constraints.
func labelled(n *clustertrace.Node, all []clustertrace.Skew) bool {
	for k := range all {
		if _, ok := n.Labels[all[k].Topology]; !ok {
			return false
		}
	}
	return true
}

// move counts pods of a template on a node.
func (w *world) move(template, n int32, by int) {
	if w.where[template] == nil {
		w.where[template] = map[int32]int{}
	}
	if w.where[template][n] += by; w.where[template][n] == 0 {
		delete(w.where[template], n)
	}
}

// hopes returns 1 if the start of another pod may open a node to pod p, otherwise 0.
func (w *world) hopes(p int32) int {
	if b := w.history.between[w.pods[p].template]; b != nil && len(b.Near)+len(b.Spread) > 0 {
		return 1
	}
	return 0
}
