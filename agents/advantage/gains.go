package advantage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// Gains looks into futures of a task of time-free dynamics: what nodes are worth to the pod. A future is drawn with replacement
// from all pods of the episode, those to come included: it is for learning, not for playing.
type Gains struct {
	t       *gpu.Task
	loads   []float64 // GPUs requested, over those of the nodes, at which allocations count; futures end at the last
	g       *gpushare.Gains
	futures []gpushare.Future
	gpus    []float64
}

// NewGains returns the gains of a task over the given number of futures. Loads are GPUs requested, over those of the nodes, in
// ascending order: what is allocated there counts, and futures end at the last.
func NewGains(task envs.Task, futures int, loads []float64) (*Gains, error) {
	t, ok := task.(*gpu.Task)
	switch {
	case !ok:
		return nil, fmt.Errorf("advantage: gains of %T, want a task of GPU scheduling", task)
	case futures < 1:
		return nil, errors.New("advantage: gains of no futures")
	case len(loads) == 0 || !slices.IsSorted(loads):
		return nil, fmt.Errorf("advantage: gains at the loads %v, want at least one, in ascending order", loads)
	}
	return &Gains{t: t, loads: loads, futures: make([]gpushare.Future, futures)}, nil
}

// Begin prepares for an episode that has just begun.
func (g *Gains) Begin() (err error) {
	s := g.t.RolloutState()
	g.g, err = gpushare.NewGains(s.Inventory, s.Instance.Outlook.Reserve, gpushare.DefaultWeights, s.Catalogue)
	return err
}

// Arrived returns the GPUs requested so far, over those of the nodes.
func (g *Gains) Arrived() float64 {
	s := g.t.RolloutState()
	return float64(s.Requested) / float64(s.Inventory.Size.MilliGPU)
}

// Nodes returns nodes for the pod; see [gpushare.Gains.Nodes].
func (g *Gains) Nodes(best, others int, rng *rand.Rand) []int32 {
	return g.g.Nodes(g.t.RolloutState().Class, best, others, rng)
}

// Play returns the GPUs allocated after the pod went to each of the nodes of the last Nodes, in the mean of loads and of futures
// that are equal for all nodes. Loads that have passed count nothing. The result is valid until the next call.
func (g *Gains) Play(nodes []int32, rng *rand.Rand) []float64 {
	s := g.t.RolloutState()
	left := func(load float64) int64 { return int64(load*float64(s.Inventory.Size.MilliGPU)) - s.Requested }
	pods, last := s.Instance.Past(len(s.Instance.Arrivals)), len(g.loads)-1
	for i := range g.futures {
		f := &g.futures[i]
		f.Pods = s.Catalogue.Resample(f.Pods[:0], pods, left(g.loads[last]), rng)
		f.Marks = f.Marks[:0]
		for _, load := range g.loads[:last] {
			if rest := left(load); rest >= 0 {
				f.Marks = append(f.Marks, s.Catalogue.Within(f.Pods, rest))
			}
		}
	}
	g.gpus = g.g.Play(g.gpus[:0], s.Class, nodes, g.futures)
	for i := range g.gpus {
		g.gpus[i] /= gpushare.WholeGPU * float64(len(g.loads))
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
