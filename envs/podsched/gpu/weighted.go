package gpu

import (
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// preferences are what a class of pods prefers, by node; nil is nothing.
type preferences struct {
	taints   []int64 // taints PreferNoSchedule that it does not tolerate
	affinity []int64 // weights of the preferred terms of its node affinity that the node matches
	images   []int64 // scores of ImageLocality
	spread   []spreadConstraint
}

// spreadConstraint is a topology spread constraint ScheduleAnyway.
type spreadConstraint struct {
	counter int32   // of the pods that it spreads
	domain  []int32 // by node; -1: the node lacks the key; nil: each node is one
	domains int     // that there are; 0 with nil
	maxSkew int
	system  bool // a default: a node may lack the key
}

// A plugin scores the nodes where a pod fits, from 0 to 100, into scores.
type plugin interface {
	scoreNodes(c *class, nodes []int32, scores []int64)
}

type weightedPlugin struct {
	plugin
	weight int64
}

// weighted chooses the node with the highest sum of weighted scores of plugins, of equal ones
// the first, as kube-scheduler does but for its ties.
type weighted struct {
	fitting *scored
	plugins []weightedPlugin
	device  func(b *board, c *class, i int32) uint64
	nodes   []int32
	scores  []int64
	sums    []int64
}

func newWeighted(b *board, plugins []weightedPlugin, device func(b *board, c *class, i int32) uint64) *weighted {
	return &weighted{fitting: newScored(b, anyNode), plugins: plugins, device: device}
}

func (w *weighted) choose(c *class) (node int32, devices uint64) {
	w.nodes = w.nodes[:0]
	row := w.fitting.row(c)
	for i := range row {
		if row[i].score != noFit {
			w.nodes = append(w.nodes, int32(i))
		}
	}
	if len(w.nodes) == 0 {
		return -1, 0
	}
	node = w.nodes[0]
	if len(w.nodes) > 1 {
		w.sum(c)
		best := int64(math.MinInt64)
		for k, s := range w.sums[:len(w.nodes)] {
			if s > best {
				node, best = w.nodes[k], s
			}
		}
	}
	return node, w.device(w.fitting.b, c, node)
}

// sum sums the plugins' scores of w.nodes in w.sums.
func (w *weighted) sum(c *class) {
	for len(w.sums) < len(w.nodes) {
		w.sums, w.scores = append(w.sums, 0), append(w.scores, 0)
	}
	sums, scores := w.sums[:len(w.nodes)], w.scores[:len(w.nodes)]
	clear(sums)
	for _, p := range w.plugins {
		p.scoreNodes(c, w.nodes, scores)
		for k, s := range scores {
			sums[k] += p.weight * s
		}
	}
}

// scoreNodes makes a score of single nodes a plugin.
func (s *scored) scoreNodes(c *class, nodes []int32, scores []int64) {
	row := s.row(c)
	for k, i := range nodes {
		scores[k] = row[i].score
	}
}

// kubeDefaultPlugins are the score plugins that kube-scheduler has on by default, but for
// InterPodAffinity: no pod has such terms.
func kubeDefaultPlugins(b *board) []weightedPlugin {
	return []weightedPlugin{
		{newScored(b, kubeResources), 1}, // LeastAllocated and BalancedAllocation, weighted already
		{taintToleration{}, kubescore.TaintTolerationWeight},
		{nodeAffinity{}, kubescore.NodeAffinityWeight},
		{&podTopologySpread{b: b}, kubescore.PodTopologySpreadWeight},
		{imageLocality{}, kubescore.ImageLocalityWeight},
	}
}

type taintToleration struct{}

func (taintToleration) scoreNodes(c *class, nodes []int32, scores []int64) {
	gather(c.prefers, func(p *preferences) []int64 { return p.taints }, nodes, scores)
	kubescore.Normalize(scores, true)
}

type nodeAffinity struct{}

func (nodeAffinity) scoreNodes(c *class, nodes []int32, scores []int64) {
	gather(c.prefers, func(p *preferences) []int64 { return p.affinity }, nodes, scores)
	kubescore.Normalize(scores, false)
}

type imageLocality struct{}

func (imageLocality) scoreNodes(c *class, nodes []int32, scores []int64) {
	gather(c.prefers, func(p *preferences) []int64 { return p.images }, nodes, scores)
}

// gather writes what a class has for each of the nodes, 0 where it has nothing.
func gather(p *preferences, of func(p *preferences) []int64, nodes []int32, scores []int64) {
	clear(scores)
	if p == nil || of(p) == nil {
		return
	}
	values := of(p)
	for k, i := range nodes {
		scores[k] = values[i]
	}
}

// podTopologySpread spreads pods by their constraints.
type podTopologySpread struct {
	b      *board
	raw    []float64
	counts []int64 // by domain
	seen   []bool
}

func (s *podTopologySpread) scoreNodes(c *class, nodes []int32, scores []int64) {
	clear(scores)
	if c.prefers == nil || len(c.prefers.spread) == 0 {
		return // kube-scheduler skips the plugin
	}
	s.raw = slices.Grow(s.raw[:0], len(nodes))[:len(nodes)]
	clear(s.raw)
	for i := range c.prefers.spread {
		s.add(&c.prefers.spread[i], nodes)
	}
	for k, x := range s.raw {
		scores[k] = kubescore.SpreadIgnored
		if !math.IsNaN(x) {
			scores[k] = int64(math.Round(x))
		}
	}
	kubescore.NormalizeSpread(scores)
}

// add adds a constraint to the raw scores. NaN marks a node that lacks its key.
func (s *podTopologySpread) add(sc *spreadConstraint, nodes []int32) {
	pods := s.b.counts[int(sc.counter)*len(s.b.nodes):][:len(s.b.nodes)]
	if sc.domain == nil {
		base := kubescore.SpreadTerm(0, len(nodes), sc.maxSkew)
		weight := kubescore.SpreadTerm(1, len(nodes), sc.maxSkew) - base
		for k, i := range nodes {
			s.raw[k] += float64(float64(pods[i])*weight) + base
		}
		return
	}
	s.counts, s.seen = slices.Grow(s.counts[:0], sc.domains)[:sc.domains], slices.Grow(s.seen[:0], sc.domains)[:sc.domains]
	clear(s.counts)
	clear(s.seen)
	for i, d := range sc.domain {
		if d >= 0 {
			s.counts[d] += int64(pods[i])
		}
	}
	domains := 0
	for _, i := range nodes {
		if d := sc.domain[i]; d >= 0 && !s.seen[d] {
			s.seen[d] = true
			domains++
		}
	}
	for k, i := range nodes {
		switch d := sc.domain[i]; {
		case d >= 0:
			s.raw[k] += kubescore.SpreadTerm(s.counts[d], domains, sc.maxSkew)
		case !sc.system:
			s.raw[k] = math.NaN()
		}
	}
}
