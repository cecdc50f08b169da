package advantage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// Gains looks into futures of a task: what nodes are worth to the pod. A future is drawn with replacement from all pods
// of the episode, those to come included: it is for learning, not for playing.
//
// In time-free dynamics a node is worth the GPUs that are allocated later. In timed dynamics it is worth less by what
// pods wait.
type Gains struct {
	t       *gpu.Task
	loads   []float64 // GPUs requested, over those of the nodes, at which allocations count; futures end at the last
	g       *gpushare.Gains
	futures []gpushare.Future
	worth   []float64

	horizon  time.Duration // of futures in timed dynamics, or 0
	courses  []gpushare.Course
	possible []bool // by class: whether a pod fits a node of the empty cluster
}

// NewGains returns the gains of a task over the given number of futures. Loads are GPUs requested, over those of the
// nodes, in ascending order: what is allocated there counts, and futures end at the last. In timed dynamics, futures
// end after a horizon instead.
func NewGains(task envs.Task, futures int, loads []float64, horizon time.Duration) (*Gains, error) {
	t, ok := task.(*gpu.Task)
	switch {
	case !ok:
		return nil, fmt.Errorf("advantage: gains of %T, want a task of GPU scheduling", task)
	case futures < 1:
		return nil, errors.New("advantage: gains of no futures")
	case len(loads) == 0 || !slices.IsSorted(loads):
		return nil, fmt.Errorf("advantage: gains at the loads %v, want at least one, in ascending order", loads)
	case t.Timed() && horizon <= 0:
		return nil, fmt.Errorf("advantage: gains of waiting within %v, want more than 0", horizon)
	}
	g := &Gains{t: t, loads: loads, futures: make([]gpushare.Future, futures)}
	if t.Timed() {
		g.horizon, g.courses = horizon, make([]gpushare.Course, futures)
	}
	return g, nil
}

// Begin prepares for an episode that has just begun.
func (g *Gains) Begin() (err error) {
	s := g.t.RolloutState()
	if g.horizon > 0 {
		g.possible = g.possible[:0]
		for i := range s.Catalogue.Classes {
			g.possible = append(g.possible, s.Inventory.CouldFitSome(&s.Catalogue.Classes[i]))
		}
	}
	g.g, err = gpushare.NewGains(s.Inventory, s.Instance.Outlook.Reserve, gpushare.DefaultWeights, s.Catalogue)
	return err
}

// Over reports whether no pod is to be placed: the episode began without a decision, or has ended.
func (g *Gains) Over() bool { return g.t.RolloutState().Current < 0 }

// Arrived returns the GPUs requested so far, over those of the nodes.
func (g *Gains) Arrived() float64 {
	s := g.t.RolloutState()
	return float64(s.Requested) / float64(s.Inventory.Size.MilliGPU)
}

// Nodes returns nodes for the pod; see [gpushare.Gains.Nodes].
func (g *Gains) Nodes(best, others int, rng *rand.Rand) []int32 {
	return g.g.Nodes(g.t.RolloutState().Class, best, others, rng)
}

// Play returns what the nodes of the last Nodes are worth, in the mean of futures that are equal for all of them: the
// GPUs allocated after the pod went there, in the mean of loads, of which those that have passed count nothing; in
// timed dynamics, minus the thousands of seconds that pods wait until the horizon. The result is valid until the next
// call.
func (g *Gains) Play(nodes []int32, rng *rand.Rand) []float64 {
	s := g.t.RolloutState()
	if g.horizon > 0 {
		for i := range g.courses {
			g.draw(&g.courses[i], &s, rng)
		}
		g.worth = g.g.PlayTimed(g.worth[:0], s.Class, nodes, g.courses)
		for i := range g.worth {
			g.worth[i] /= -1000
		}
		return g.worth
	}
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
	g.worth = g.g.Play(g.worth[:0], s.Class, nodes, g.futures)
	for i := range g.worth {
		g.worth[i] /= gpushare.WholeGPU * float64(len(g.loads))
	}
	return g.worth
}

// draw draws a course: pods that arrive are drawn with replacement from those of the episode, and come at its times;
// how long others run is drawn from the durations of its pods that are longer than they have run so far.
func (g *Gains) draw(f *gpushare.Course, s *gpu.RolloutState, rng *rand.Rand) {
	pods := s.Instance.Arrivals
	duration := func() time.Duration { return pods[rng.IntN(len(pods))].Duration }
	f.Duration, f.Offered, f.Until = duration(), s.Pos, g.horizon
	f.Waiting, f.Running, f.Pods = f.Waiting[:0], f.Running[:0], f.Pods[:0]
	for i, pod := range s.Queue {
		if i != s.Pos {
			f.Waiting = append(f.Waiting, gpushare.CoursePod{Class: pods[pod].Class, Duration: duration()})
		}
	}
	for _, r := range s.Running {
		age := s.Now - (r.At - pods[r.Pod].Duration)
		d := duration()
		for d <= age && d > 0 {
			d = duration()
		}
		if d > 0 { // 0 is for ever
			f.Running = append(f.Running, gpushare.CourseRun{Class: pods[r.Pod].Class, Node: r.Node, Devices: r.Devices, End: d - age})
		}
	}
	for _, next := range pods[s.Next:] {
		if next.At-s.Now >= g.horizon {
			break
		}
		if p := &pods[rng.IntN(len(pods))]; g.possible[p.Class] {
			f.Pods = append(f.Pods, gpushare.CoursePod{Class: p.Class, At: next.At - s.Now, Duration: p.Duration})
		}
	}
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
