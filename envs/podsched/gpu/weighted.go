package gpu

import (
	"math"

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
	domain  []int32 // by node; -1: the node lacks the key
	domains int
	maxSkew int
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
		{podTopologySpread{b}, kubescore.PodTopologySpreadWeight},
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

// podTopologySpread spreads the replicas of a controller: over hostnames if the class has no
// constraints of its own. The nodes of a trace have no zones.
type podTopologySpread struct{ b *board }

func (s podTopologySpread) scoreNodes(c *class, nodes []int32, scores []int64) {
	clear(scores)
	if c.owner < 0 {
		return
	}
	owned := s.b.owned[int(c.owner)*len(s.b.nodes):][:len(s.b.nodes)]
	if c.prefers == nil || len(c.prefers.spread) == 0 {
		weight := kubescore.SpreadTerm(1, len(nodes), 1)
		for k, i := range nodes {
			scores[k] = int64(math.Round(float64(owned[i])*weight + kubescore.DefaultHostnameMaxSkew - 1))
		}
		kubescore.NormalizeSpread(scores)
		return
	}
	s.constrained(c.prefers.spread, owned, nodes, scores)
}

func (s podTopologySpread) constrained(constraints []spreadConstraint, owned []int32, nodes []int32, scores []int64) {
	raw := make([]float64, len(nodes))
	for _, sc := range constraints {
		counts := make([]int64, sc.domains)
		for i, d := range sc.domain {
			if d >= 0 {
				counts[d] += int64(owned[i])
			}
		}
		seen := make([]bool, sc.domains)
		domains := 0
		for _, i := range nodes {
			if d := sc.domain[i]; d >= 0 && !seen[d] {
				seen[d] = true
				domains++
			}
		}
		for k, i := range nodes {
			if d := sc.domain[i]; d < 0 {
				raw[k] = math.NaN()
			} else {
				raw[k] += kubescore.SpreadTerm(counts[d], domains, sc.maxSkew)
			}
		}
	}
	for k, x := range raw {
		scores[k] = kubescore.SpreadIgnored
		if !math.IsNaN(x) {
			scores[k] = int64(math.Round(x))
		}
	}
	kubescore.NormalizeSpread(scores)
}
