package gpushare

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs/pcg"
)

// RolloutConfig are the settings of [Rollouts], with the tags of a baseline's parameters.
type RolloutConfig struct {
	Nodes      int     `opt:"nodes" doc:"nodes tried for each pod, the best by WeightedFGD's value" range:"2,12"`
	Futures    int     `opt:"futures" doc:"futures played for each node" range:"2,48,log"`
	Confidence float64 `opt:"confidence" doc:"standard errors by which a node must be better in the mean than WeightedFGD's" range:"0,2"`
	From       float64 `opt:"from" doc:"GPUs requested, over those of the nodes, from which it looks ahead" range:"0,0.9"`
	Until      float64 `opt:"until" doc:"GPUs requested, over those of the nodes, where futures end; 0 is the episode's end"`
	Pressure   float64 `opt:"pressure" doc:"of WeightedFGD" range:"5,500,log"`
	BestFit    float64 `opt:"best_fit" doc:"of WeightedFGD" range:"0.003,1,log"`
}

// Check returns an error for settings out of range.
func (c *RolloutConfig) Check() error {
	if c.Nodes < 1 || c.Futures < 1 || c.Confidence < 0 {
		return fmt.Errorf("gpu: rollouts with %d nodes, %d futures and a confidence of %v, want at least 1, 1 and 0", c.Nodes, c.Futures, c.Confidence)
	}
	return nil
}

// DefaultRollouts are the settings of the baseline RolloutWeightedFGD.
var DefaultRollouts = RolloutConfig{
	Nodes: 6, Futures: 12, Confidence: 1, From: 0.3, Pressure: DefaultWeights.Pressure, BestFit: DefaultWeights.BestFit,
}

// Rollouts improves on WeightedFGD by one step: it tries a pod on several nodes, continues with WeightedFGD in the same
// sampled futures after each, and takes the node whose futures end with the most allocated GPUs. It deviates from
// WeightedFGD only if the mean gain less Confidence standard errors is above 0. Pods stay for ever.
//
// It draws futures from the pods that have arrived. Its decision depends only on these and on the inventory.
//
// Source: Tesauro and Galperin, "On-line Policy Improvement using Monte-Carlo Search", NeurIPS 1996.
type Rollouts struct {
	look   *Lookahead
	config RolloutConfig
	past   func() (classes []int32, milliGPU int64)
	tried  []candidate
	gains  []gain
	means  []float64
	future []int32
}

// NewRollouts returns the policy for pods of the classes of cat. past returns the classes of the pods that have
// arrived, including the one to place, and the thousandths of a GPU that they requested.
func NewRollouts(b *Inventory, r *Reserve, cat *Catalogue, c RolloutConfig, past func() (classes []int32, milliGPU int64)) (*Rollouts, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	look, err := NewLookahead(b, r, Weights{Pressure: c.Pressure, BestFit: c.BestFit}, cat)
	return &Rollouts{look: look, config: c, past: past}, err
}

var _ Placer = (*Rollouts)(nil)

// Choose implements [Placer].
func (r *Rollouts) Choose(c *Class) (node int32, devices uint64) {
	classes, arrived := r.past()
	if !r.ahead(arrived) {
		return r.look.weights.Choose(c)
	}
	r.look.begin()
	r.tried = r.look.candidates(r.tried[:0], c, r.config.Nodes)
	switch len(r.tried) {
	case 0:
		return -1, 0
	case 1:
		return r.tried[0].node, r.tried[0].devices
	}
	r.play(c, classes, arrived, r.config.Futures, rand.New(pcg.New(r.seed(classes))))
	best := &r.tried[r.best()]
	return best.node, best.devices
}

// Gains returns by how many GPUs each of nodes, which a pod of class c fits, is better than the first, in the mean of futures
// that rng draws. It is 0 for all of them before From and after Until. The result is valid until the next call.
func (r *Rollouts) Gains(c *Class, nodes []int32, futures int, rng *rand.Rand) []float64 {
	classes, arrived := r.past()
	r.means = append(r.means[:0], make([]float64, len(nodes))...)
	if !r.ahead(arrived) {
		return r.means
	}
	r.look.begin()
	r.tried = r.tried[:0]
	for _, node := range nodes {
		r.tried = append(r.tried, candidate{node: node})
	}
	r.play(c, classes, arrived, futures, rng)
	for i := range r.means {
		r.means[i] = r.gains[i].sum / float64(futures) / WholeGPU
	}
	return r.means
}

// ahead reports whether the load is one at which futures are played.
func (r *Rollouts) ahead(arrived int64) bool {
	a, size := float64(arrived), float64(r.look.b.Size.MilliGPU)
	return a >= r.config.From*size && a < r.config.Until*size
}

// play plays futures from each of the candidates, and adds up their gains over the first.
func (r *Rollouts) play(c *Class, past []int32, arrived int64, futures int, rng *rand.Rand) {
	end := int64(r.config.Until * float64(r.look.b.Size.MilliGPU))
	r.gains = append(r.gains[:0], make([]gain, len(r.tried))...)
	for range futures {
		r.future = r.look.cat.Resample(r.future[:0], past, end-arrived, rng)
		base := r.look.play(c, r.tried[0].node, r.future, nil)
		for i := 1; i < len(r.tried); i++ {
			r.gains[i].add(float64(r.look.play(c, r.tried[i].node, r.future, nil) - base))
		}
	}
}

// best returns the index of the best candidate.
func (r *Rollouts) best() (best int) {
	most := 0.0
	for i := 1; i < len(r.tried); i++ {
		if v := r.gains[i].bound(float64(r.config.Futures), r.config.Confidence); v > most {
			best, most = i, v
		}
	}
	return best
}

// seed returns a seed that depends on the decision and on the past pods, so that a policy makes the same decision
// whenever it is asked.
func (r *Rollouts) seed(past []int32) uint64 {
	h := fnv.New64a()
	var word [8]byte
	write := func(x uint64) {
		binary.LittleEndian.PutUint64(word[:], x)
		h.Write(word[:])
	}
	write(uint64(r.look.b.Used.MilliGPU))
	for _, class := range past {
		write(uint64(class))
	}
	return h.Sum64()
}

// Resample appends to dst classes drawn with replacement from past, while they request at most milliGPU thousandths of
// a GPU; none if no class of past requests any.
func (cat *Catalogue) Resample(dst, past []int32, milliGPU int64, rng *rand.Rand) []int32 {
	if !slices.ContainsFunc(past, func(class int32) bool { return cat.Classes[class].TotalMilliGPU() > 0 }) {
		return dst
	}
	for {
		class := past[rng.IntN(len(past))]
		if milliGPU -= cat.Classes[class].TotalMilliGPU(); milliGPU < 0 {
			return dst
		}
		dst = append(dst, class)
	}
}

// Within returns how many of the first pods request no more than the given thousandths of a GPU together.
func (cat *Catalogue) Within(pods []int32, milliGPU int64) int {
	for k, class := range pods {
		if milliGPU -= cat.Classes[class].TotalMilliGPU(); milliGPU < 0 {
			return k
		}
	}
	return len(pods)
}

// gain sums the gains of a node over WeightedFGD's, in thousandths of a GPU.
type gain struct{ sum, squares float64 }

func (g *gain) add(x float64) {
	g.sum += x
	g.squares += x * x
}

// bound returns the mean of n gains less z standard errors. The error of a single gain is unknown, so its bound is −∞
// unless z is 0.
func (g *gain) bound(n, z float64) float64 {
	mean := g.sum / n
	switch {
	case z == 0:
		return mean
	case n < 2:
		return math.Inf(-1)
	}
	return mean - z*math.Sqrt(max(0, g.squares/n-mean*mean)/(n-1))
}
