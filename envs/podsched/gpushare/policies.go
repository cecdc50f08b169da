package gpushare

import (
	"fmt"
	"math/bits"
	"strings"
)

// Policy is a named heuristic.
type Policy struct {
	Name, Doc string
	score     scoreFunc // nil for policies that compare all nodes at once
	New       func(b *Inventory, r *Reserve, draw Intn) Placer
}

func byScore(name, doc string, score scoreFunc) Policy {
	return Policy{name, doc, score, func(b *Inventory, _ *Reserve, _ Intn) Placer { return newScored(b, score) }}
}

// Policies lists the heuristics in the order of reports.
var Policies = []Policy{
	{"Random", "A node at random among those where the pod fits.", anyNode,
		func(b *Inventory, _ *Reserve, draw Intn) Placer { return newRandom(b, draw) }},
	byScore("DotProd", "The node whose free CPU and GPU are least aligned with the request.", dotProd),
	byScore("GpuClustering", "A node that runs pods of the same kind (Gandiva).", gpuClustering),
	byScore("GpuPacking", "Shared devices first, then free ones on used nodes, then idle nodes.", gpuPacking),
	byScore("BestFit", "The node with the least CPU and GPU left.", BestFit),
	byScore("FGD", "Fragmentation gradient descent: the placement that adds the least fragmentation.", fgd),
	{"ScarcityFGD", "FGD that keeps GPU models free for the pods that can run on no other.", fgd,
		func(b *Inventory, r *Reserve, _ Intn) Placer { return newReserving(b, r) }},
	{"WeightedFGD", "FGD that weighs how scarce a GPU model is, and how well the pod fits, against fragmentation.", fgd,
		func(b *Inventory, r *Reserve, _ Intn) Placer { return newWeighing(b, r, DefaultWeights) }},
	byScore("MostAllocated", "kube-scheduler's bin packing of CPU and memory.", mostAllocated),
	byScore("KubeResources", "kube-scheduler's LeastAllocated and BalancedAllocation of CPU and memory.", kubeResources),
	{"KubeDefault", "kube-scheduler's default score plugins with today's weights; pods of equal shape are replicas of one controller.", kubeResources,
		func(b *Inventory, _ *Reserve, _ Intn) Placer {
			return newWeighted(b, kubeDefaultPlugins(b), (*Inventory).Tightest)
		}},
}

// Scores returns a function that writes the policy's scores of nodes that a pod of class c fits; nil for Random, which
// has none.
func (p *Policy) Scores(b *Inventory, r *Reserve) func(c *Class, nodes []int32, scores []int64) {
	switch one := p.New(b, r, nil).(type) {
	case *weighted:
		return one.scoreNodes
	case *reserving:
		return (&scarcityScores{one}).scoreNodes
	case *weighing:
		return (&weighedScores{one}).scoreNodes
	case *scored:
		return one.scoreNodes
	}
	return nil
}

// PolicyNames returns the names of the heuristics.
func PolicyNames() []string {
	names := make([]string, len(Policies))
	for i := range Policies {
		names[i] = Policies[i].Name
	}
	return names
}

// PolicyByName returns the policy called name, one of [PolicyNames].
func PolicyByName(name string) (*Policy, error) {
	for i := range Policies {
		if Policies[i].Name == name {
			return &Policies[i], nil
		}
	}
	return nil, fmt.Errorf("gpu: policy %q, want one of %s", name, strings.Join(PolicyNames(), ", "))
}

// A Placer chooses nodes and devices for pods. It belongs to one [Inventory].
type Placer interface {
	// Choose returns the node and the devices for a pod of class c, or node -1 if it fits none.
	Choose(c *Class) (node int32, devices uint64)
}

// scored chooses the node with the highest score, the first of equal ones. It caches the scores of each class until the
// node changes.
type scored struct {
	b     *Inventory
	score scoreFunc
	rows  [][]entry // by class, by node
}

type entry struct {
	version uint64 // of the node when the rest was computed
	devices uint64
	score   int64 // -1: the pod does not fit
}

const noFit = -1

func newScored(b *Inventory, score scoreFunc) *scored { return &scored{b: b, score: score} }

// row returns the current scores of all nodes for class c.
func (s *scored) row(c *Class) []entry {
	n := len(s.b.Nodes)
	for int(c.ID) >= len(s.rows) {
		s.rows = append(s.rows, nil)
	}
	if len(s.rows[c.ID]) < n {
		s.rows[c.ID] = make([]entry, n)
	}
	row := s.rows[c.ID][:n]
	for i := range row {
		if e := &row[i]; e.version != s.b.Nodes[i].Version {
			e.version, e.score = s.b.Nodes[i].Version, noFit
			if s.b.Fits(c, int32(i)) {
				e.score, e.devices = s.score(s.b, c, int32(i))
			}
		}
	}
	return row
}

// Choose implements [Placer].
func (s *scored) Choose(c *Class) (node int32, devices uint64) {
	node = -1
	best := int64(noFit)
	row := s.row(c)
	for i := range row {
		if row[i].score > best {
			node, best = int32(i), row[i].score
		}
	}
	if node < 0 {
		return -1, 0
	}
	return node, row[node].devices
}

// Intn draws a number from 0 to n-1. The generators of both versions of math/rand have such a method.
type Intn func(n int) int

// random chooses a random node among those that fit, and a random device for a pod that shares one.
type random struct {
	*scored
	draw Intn
}

func newRandom(b *Inventory, draw Intn) *random { return &random{newScored(b, anyNode), draw} }

// Choose implements [Placer].
func (r *random) Choose(c *Class) (node int32, devices uint64) {
	row := r.row(c)
	fitting := 0
	for i := range row {
		if row[i].score != noFit {
			fitting++
		}
	}
	if fitting == 0 {
		return -1, 0
	}
	k := r.draw(fitting)
	for i := range row {
		if row[i].score == noFit {
			continue
		}
		if k == 0 {
			return int32(i), randomDevice(r.b, c, int32(i), r.draw)
		}
		k--
	}
	return -1, 0
}

// randomDevice returns a random device that fits, for a pod that shares one, and otherwise the first ones.
func randomDevice(b *Inventory, c *Class, i int32, draw Intn) uint64 {
	if !c.Sharing() {
		return b.Tightest(c, i)
	}
	var fitting uint64
	for d, f := range b.DevicesOf(i) {
		if f >= c.MilliGPU {
			fitting |= 1 << d
		}
	}
	for range draw(bits.OnesCount64(fitting)) {
		fitting &= fitting - 1
	}
	return fitting & -fitting
}
