package gpushare

import (
	"math/rand/v2"
	"slices"
)

// Gains measures the value of nodes for a pod: the GPUs allocated at the end of futures in which WeightedFGD continues
// after the placement, as [Rollouts] does to decide.
type Gains struct {
	look  *Lookahead
	tried []candidate
	nodes []int32
}

// maxGainStates bounds the table of a [Gains]; many decisions of an episode use the same entries.
const maxGainStates = 1 << 18

// NewGains returns the gains in b for pods of the classes of cat. Errors are those of [NewLookahead].
func NewGains(b *Inventory, r *Reserve, w Weights, cat *Catalogue) (*Gains, error) {
	look, err := NewLookahead(b, r, w, cat)
	if err != nil {
		return nil, err
	}
	look.maxStates = maxGainStates
	return &Gains{look: look}, nil
}

// Nodes returns nodes that a pod of class c fits: the best ones by WeightedFGD, its choice first, and then others drawn
// from the rest. It returns one of the nodes in equal states. The result is valid until the next call.
func (g *Gains) Nodes(c *Class, best, others int, rng *rand.Rand) []int32 {
	g.look.begin()
	g.tried = g.look.candidates(g.tried[:0], c, len(g.look.start))
	g.nodes = g.nodes[:0]
	best = min(best, len(g.tried))
	for i := range g.tried[:best] {
		g.nodes = append(g.nodes, g.tried[i].node)
	}
	rest := g.tried[best:]
	for range min(others, len(rest)) {
		i := rng.IntN(len(rest))
		g.nodes = append(g.nodes, rest[i].node)
		rest = slices.Delete(rest, i, i+1)
	}
	return g.nodes
}

// A Future holds the classes of pods to come.
type Future struct {
	Pods  []int32
	Marks []int // numbers of these pods after which what is allocated counts, beside the end; ascending
}

// Play appends to dst, for each of the nodes, the mean over the futures of the thousandths of a GPU that are allocated at their
// marks and ends, in sum. The inventory must be as it was at the last Nodes.
func (g *Gains) Play(dst []float64, c *Class, nodes []int32, futures []Future) []float64 {
	for _, node := range nodes {
		sum := int64(0)
		for i := range futures {
			sum += g.look.play(c, node, futures[i].Pods, futures[i].Marks)
		}
		dst = append(dst, float64(sum)/float64(len(futures)))
	}
	return dst
}

// PlayTimed is Play of timed dynamics: it appends, for each of the nodes, the mean over the courses of the seconds that
// pods wait until their ends, in sum.
func (g *Gains) PlayTimed(dst []float64, c *Class, nodes []int32, courses []Course) []float64 {
	for _, node := range nodes {
		sum := 0.0
		for i := range courses {
			sum += g.look.playTimed(c, node, &courses[i]).Seconds()
		}
		dst = append(dst, sum/float64(len(courses)))
	}
	return dst
}
