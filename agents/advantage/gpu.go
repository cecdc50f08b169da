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

// GPU is the domain of k8s/GPUPodScheduling, with the heuristic WeightedFGD. A future is drawn with replacement from all
// pods of the episode, those to come included: it is for learning, not for playing.
//
// In time-free dynamics a node is worth the GPUs that are allocated later. In timed dynamics it is worth less by what
// pods wait.
type GPU struct {
	// Loads are GPUs requested, over those of the nodes, in ascending order. What is allocated there counts, in the mean;
	// episodes and futures end at the last.
	Loads []float64
	From  float64 // GPUs requested, over those of the nodes, from which decisions are eligible
	// Horizon is the length of futures of timed dynamics, in which what pods wait counts in place of allocations.
	Horizon time.Duration
}

// GPUDefaults returns the settings of docs/results/gpu.md. Weight is in GPUs, in timed dynamics in thousands of seconds.
func GPUDefaults() (Config, *GPU) {
	d := &GPU{Loads: []float64{1, 1.3}, From: 0.2, Horizon: 1500 * time.Second}
	return Config{
		Env: "k8s/GPUPodScheduling-v2", Domain: d, Rounds: 1, Episodes: 400, Density: 0.3, Best: 8, Others: 2, Futures: 6, Explore: 0.15,
		Width: 64, Steps: 40_000, Batch: 256, LearningRate: 0.002, Weight: 0.015,
	}, d
}

// Kwargs implements [Domain].
func (d *GPU) Kwargs(opts map[string]any) {
	if len(d.Loads) > 0 {
		opts["load_end"] = d.Loads[len(d.Loads)-1]
	}
}

var _ Domain = (*GPU)(nil)

// gpuGains implements [Gains].
type gpuGains struct {
	*GPU
	t       *gpu.Task
	g       *gpushare.Gains
	futures []gpushare.Future
	worth   []float64

	timed    bool
	courses  []gpushare.Course
	possible []bool // by class: whether a pod fits a node of the empty cluster
}

// Gains implements [Domain].
func (d *GPU) Gains(task envs.Task, futures int) (Gains, error) {
	t, ok := task.(*gpu.Task)
	switch {
	case !ok:
		return nil, fmt.Errorf("advantage: gains of %T, want a task of GPU scheduling", task)
	case futures < 1:
		return nil, errors.New("advantage: gains of no futures")
	case len(d.Loads) == 0 || !slices.IsSorted(d.Loads):
		return nil, fmt.Errorf("advantage: gains at the loads %v, want at least one, in ascending order", d.Loads)
	case t.Timed() && d.Horizon <= 0:
		return nil, fmt.Errorf("advantage: gains of waiting within %v, want more than 0", d.Horizon)
	}
	g := &gpuGains{GPU: d, t: t, timed: t.Timed(), futures: make([]gpushare.Future, futures)}
	if g.timed {
		g.courses = make([]gpushare.Course, futures)
	}
	return g, nil
}

// Begin implements [Gains].
func (g *gpuGains) Begin() (err error) {
	s := g.t.RolloutState()
	if g.timed {
		g.possible = g.possible[:0]
		for i := range s.Catalogue.Classes {
			g.possible = append(g.possible, s.Inventory.CouldFitSome(&s.Catalogue.Classes[i]))
		}
	}
	g.g, err = gpushare.NewGains(s.Inventory, s.Instance.Outlook.Reserve, gpushare.DefaultWeights, s.Catalogue)
	return err
}

// Over implements [Gains].
func (g *gpuGains) Over() bool { return g.t.RolloutState().Current < 0 }

// Eligible implements [Gains].
func (g *gpuGains) Eligible() bool {
	s := g.t.RolloutState()
	return float64(s.Requested)/float64(s.Inventory.Size.MilliGPU) >= g.From
}

// Nodes implements [Gains]; see [gpushare.Gains.Nodes].
func (g *gpuGains) Nodes(best, others int, rng *rand.Rand) []int32 {
	return g.g.Nodes(g.t.RolloutState().Class, best, others, rng)
}

// Play implements [Gains]. The nodes of the last Nodes are worth the GPUs allocated after the pod went there, in the mean
// of loads, of which those that have passed count nothing; in timed dynamics, minus the thousands of seconds that pods
// wait until the horizon.
func (g *gpuGains) Play(nodes []int32, rng *rand.Rand) []float64 {
	s := g.t.RolloutState()
	if g.timed {
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
	pods, last := s.Instance.Past(len(s.Instance.Arrivals)), len(g.Loads)-1
	for i := range g.futures {
		f := &g.futures[i]
		f.Pods = s.Catalogue.Resample(f.Pods[:0], pods, left(g.Loads[last]), rng)
		f.Marks = f.Marks[:0]
		for _, load := range g.Loads[:last] {
			if rest := left(load); rest >= 0 {
				f.Marks = append(f.Marks, s.Catalogue.Within(f.Pods, rest))
			}
		}
	}
	g.worth = g.g.Play(g.worth[:0], s.Class, nodes, g.futures)
	for i := range g.worth {
		g.worth[i] /= gpushare.WholeGPU * float64(len(g.Loads))
	}
	return g.worth
}

// draw draws a course: pods that arrive are drawn with replacement from those of the episode, and come at its times;
// how long others run is drawn from the durations of its pods that are longer than they have run so far.
func (g *gpuGains) draw(f *gpushare.Course, s *gpu.RolloutState, rng *rand.Rand) {
	pods := s.Instance.Arrivals
	duration := func() time.Duration { return pods[rng.IntN(len(pods))].Duration }
	f.Duration, f.Offered, f.Until = duration(), s.Pos, g.Horizon
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
		if next.At-s.Now >= g.Horizon {
			break
		}
		if p := &pods[rng.IntN(len(pods))]; g.possible[p.Class] {
			f.Pods = append(f.Pods, gpushare.CoursePod{Class: p.Class, At: next.At - s.Now, Duration: p.Duration})
		}
	}
}

// Score implements [Gains]: the score of WeightedFGD, of 100.
func (g *gpuGains) Score() (columns []Column, err error) {
	w := gpushare.DefaultWeights
	weights := map[string]float32{"score_fgd": 100, "model_pressure": float32(-w.Pressure * gpushare.MaxPressure), "score_best_fit": float32(100 * w.BestFit)}
	for i, name := range g.t.Features()[0].Names {
		if x, ok := weights[name]; ok {
			columns = append(columns, Column{Column: i, Weight: x})
		}
	}
	if len(columns) != len(weights) {
		return nil, fmt.Errorf("%w: advantages need scores", envs.ErrInvalidOption)
	}
	return columns, nil
}
