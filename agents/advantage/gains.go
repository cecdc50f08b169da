package advantage

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// Gains looks into futures of a task of time-free dynamics: what nodes are worth to the pod. A future is drawn with replacement
// from all pods of the episode, those to come included: it is for learning, not for playing.
type Gains struct {
	t       *gpu.Task
	end     float64 // GPUs requested, over those of the nodes, where futures end
	g       *gpushare.Gains
	futures [][]int32
	gpus    []float64
}

// NewGains returns the gains of a task over the given number of futures, which end where the given GPUs are requested, over those of
// the nodes.
func NewGains(task envs.Task, futures int, end float64) (*Gains, error) {
	t, ok := task.(*gpu.Task)
	switch {
	case !ok:
		return nil, fmt.Errorf("advantage: gains of %T, want a task of GPU scheduling", task)
	case futures < 1:
		return nil, errors.New("advantage: gains of no futures")
	}
	return &Gains{t: t, end: end, futures: make([][]int32, futures)}, nil
}

// Begin prepares for an episode that has just begun.
func (g *Gains) Begin() (err error) {
	b, in, cat, _, _ := g.t.Plays()
	g.g, err = gpushare.NewGains(b, in.Outlook.Reserve, gpushare.DefaultWeights, cat)
	return err
}

// Arrived returns the GPUs requested so far, over those of the nodes.
func (g *Gains) Arrived() float64 {
	b, _, _, _, arrived := g.t.Plays()
	return float64(arrived) / float64(b.Size.MilliGPU)
}

// Nodes returns nodes for the pod; see [gpushare.Gains.Nodes].
func (g *Gains) Nodes(best, others int, rng *rand.Rand) []int32 {
	_, _, _, class, _ := g.t.Plays()
	return g.g.Nodes(class, best, others, rng)
}

// Play returns the GPUs allocated at the end after the pod went to each of the nodes of the last Nodes, in the mean of futures
// that are equal for all nodes. The result is valid until the next call.
func (g *Gains) Play(nodes []int32, rng *rand.Rand) []float64 {
	b, in, cat, class, arrived := g.t.Plays()
	pods, left := in.Past(len(in.Arrivals)), int64(g.end*float64(b.Size.MilliGPU))-arrived
	for i := range g.futures {
		g.futures[i] = cat.Resample(g.futures[i][:0], pods, left, rng)
	}
	g.gpus = g.g.Play(g.gpus[:0], class, nodes, g.futures)
	for i := range g.gpus {
		g.gpus[i] /= gpushare.WholeGPU
	}
	return g.gpus
}

// scoreColumns returns the score of WeightedFGD, of 100, as a linear function of a node's row: weights by column.
func scoreColumns(task envs.Task) (map[int]float32, error) {
	w := gpushare.DefaultWeights
	weights := map[string]float32{"score_fgd": 100, "model_pressure": float32(-w.Pressure * gpushare.MaxPressure), "score_best_fit": float32(100 * w.BestFit)}
	columns := map[int]float32{}
	for i, name := range task.(envs.FeatureNamer).Features()[0].Names {
		if x, ok := weights[name]; ok {
			columns[i] = x
		}
	}
	if len(columns) != len(weights) {
		return nil, fmt.Errorf("%w: advantages need scores", envs.ErrInvalidOption)
	}
	return columns, nil
}
