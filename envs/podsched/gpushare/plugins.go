package gpushare

import (
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// stretched scales the scores of the nodes to 0 … 100, as BestFit does.
type stretched struct{ plugin }

func (s stretched) scoreNodes(c *Class, nodes []int32, scores []int64) {
	s.plugin.scoreNodes(c, nodes, scores)
	lo, hi := slices.Min(scores), slices.Max(scores)
	for k := range scores {
		if hi > lo {
			scores[k] = (scores[k] - lo) * kubescore.MaxNodeScore / (hi - lo)
		} else {
			scores[k] = kubescore.MaxNodeScore
		}
	}
}

// randomScores draws a score for each node.
type randomScores struct{ draw Intn }

func (r randomScores) scoreNodes(_ *Class, nodes []int32, scores []int64) {
	for k := range nodes {
		scores[k] = int64(r.draw(kubescore.MaxNodeScore + 1))
	}
}

// scarcityScores halves FGD's scores and adds 50 if the model is not scarce.
type scarcityScores struct{ *reserving }

func (s *scarcityScores) scoreNodes(c *Class, nodes []int32, scores []int64) {
	s.scored.scoreNodes(c, nodes, scores)
	s.weigh(c)
	for k, i := range nodes {
		scores[k] /= 2
		if !s.scarce(i) {
			scores[k] += kubescore.MaxNodeScore / 2
		}
	}
}

// weighedScores are the values of WeightedFGD, in hundredths of a point of FGD's score.
type weighedScores struct{ *weighing }

func (s *weighedScores) scoreNodes(c *Class, nodes []int32, scores []int64) {
	row := s.row(c)
	s.weigh(c)
	for k, i := range nodes {
		scores[k] = int64(100 * s.value(c, i, &row[i]))
	}
}

// preferences holds the preferences of a class of pods, by node; nil means none.
type preferences struct {
	taints   []int64 // number of untolerated PreferNoSchedule taints
	affinity []int64 // weights of the matching preferred node affinity terms
	images   []int64 // scores of ImageLocality
	spread   []spreadConstraint
}

// spreadConstraint is a topology spread constraint ScheduleAnyway.
type spreadConstraint struct {
	counter int32   // of the pods that it spreads
	domain  []int32 // by node; -1: the node lacks the key; nil: each node is a domain
	domains int     // number of domains; 0 with nil
	maxSkew int
	system  bool // a default: a node may lack the key
}

// scoreNodes implements plugin, with a score of single nodes.
func (s *scored) scoreNodes(c *Class, nodes []int32, scores []int64) {
	row := s.row(c)
	for k, i := range nodes {
		scores[k] = row[i].score
	}
}

// kubeDefaultPlugins returns kube-scheduler's default score plugins without InterPodAffinity, since no pod has such
// terms.
func kubeDefaultPlugins(b *Inventory) []weightedPlugin {
	return []weightedPlugin{
		{newScored(b, kubeResources), 1}, // LeastAllocated and BalancedAllocation, already weighted
		{taintToleration{}, kubescore.TaintTolerationWeight},
		{nodeAffinity{}, kubescore.NodeAffinityWeight},
		{&podTopologySpread{b: b}, kubescore.PodTopologySpreadWeight},
		{imageLocality{}, kubescore.ImageLocalityWeight},
	}
}

type taintToleration struct{}

func (taintToleration) scoreNodes(c *Class, nodes []int32, scores []int64) {
	gather(c.prefers, func(p *preferences) []int64 { return p.taints }, nodes, scores)
	kubescore.Normalize(scores, true)
}

type nodeAffinity struct{}

func (nodeAffinity) scoreNodes(c *Class, nodes []int32, scores []int64) {
	gather(c.prefers, func(p *preferences) []int64 { return p.affinity }, nodes, scores)
	kubescore.Normalize(scores, false)
}

type imageLocality struct{}

func (imageLocality) scoreNodes(c *Class, nodes []int32, scores []int64) {
	gather(c.prefers, func(p *preferences) []int64 { return p.images }, nodes, scores)
}

// gather writes the preferences of a class for each of the nodes, 0 if it has none.
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
	b      *Inventory
	raw    []float64
	counts []int64 // by domain
	seen   []bool
}

func (s *podTopologySpread) scoreNodes(c *Class, nodes []int32, scores []int64) {
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
	pods := s.b.counts[int(sc.counter)*len(s.b.Nodes):][:len(s.b.Nodes)]
	if sc.domain == nil {
		one := kubescore.SpreadWeight(len(nodes))
		base := kubescore.SpreadTerm(0, one, sc.maxSkew)
		weight := kubescore.SpreadTerm(1, one, sc.maxSkew) - base
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
	weight := kubescore.SpreadWeight(domains)
	for k, i := range nodes {
		switch d := sc.domain[i]; {
		case d >= 0:
			s.raw[k] += kubescore.SpreadTerm(s.counts[d], weight, sc.maxSkew)
		case !sc.system:
			s.raw[k] = math.NaN()
		}
	}
}
