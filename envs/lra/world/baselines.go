package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Problem returns the batch of the running episode on empty nodes, as planners know it:
// restrictions are kept without exception. It returns an error with online arrivals.
func (t *Task) Problem() (*lra.Problem, error) {
	if t.heap != nil {
		return nil, fmt.Errorf("lra: containers that come and go are no batch to plan")
	}
	p := t.present()
	for _, a := range t.queue {
		p.Batch[a]++
	}
	return p, nil
}

// present returns the nodes of the episode without a batch.
func (t *Task) present() *lra.Problem {
	p := &lra.Problem{}
	first := make([]int, len(t.src.kinds))
	for k, kind := range t.src.kinds {
		first[k] = len(p.Models)
		p.Models = append(p.Models, kind.forbidding...)
	}
	for i, k := range t.src.class {
		p.Class = append(p.Class, first[k]+int(t.forbid[i]))
	}
	return p
}

// choose wraps a chooser, which is made anew for each episode, as a rule. Where the chooser
// finds no node, the first is taken that the task permits.
func choose(start func(ctx context.Context, t *Task, p *lra.Problem) (lra.Chooser, error)) func(envs.Task) (envs.Rule, error) {
	return func(task envs.Task) (envs.Rule, error) {
		t, ok := task.(*Task)
		if !ok {
			return nil, fmt.Errorf("lra: a baseline of placement for a task of type %T", task)
		}
		var chooser lra.Chooser
		node, decision := 0, 0
		return func(ctx context.Context, _ *cluster.State, first bool, action []float32) error {
			if first {
				var err error
				if chooser, err = start(ctx, t, t.present()); err != nil {
					return err
				}
			}
			if first || t.level == 0 || t.decided != decision { // or it was not asked at the root
				node, decision = t.pick(chooser), t.decided
			}
			width := t.width()
			if node < t.from || node >= t.from+t.fan*width { // other choices were made on the way down
				node = t.pickBelow(t.fan * width)
			}
			action[0] = float32((node - t.from) / width)
			return nil
		}, nil
	}
}

// pick returns the node for the container to place.
func (t *Task) pick(chooser lra.Chooser) int {
	app := t.app()
	if node := chooser(t.x, app); node >= 0 && t.permits(node, app) {
		return node
	}
	for i := range t.x {
		if t.permits(i, app) {
			return i
		}
	}
	return 0
}

// pickBelow returns the first of the next n nodes that permits the container to place, or their
// first.
func (t *Task) pickBelow(n int) int {
	app := t.app()
	for i := t.from; i < t.from+n; i++ {
		if t.permits(i, app) {
			return i
		}
	}
	return t.from
}

// plan wraps a planner of whole batches as a rule: a container goes to the first node that is
// still to get one of its application. A batch that cannot be placed whole, or not in the planner's
// order, is placed greedily.
func plan(solve func(ctx context.Context, p *lra.Problem) (lra.Placement, error)) func(envs.Task) (envs.Rule, error) {
	rule := choose(func(ctx context.Context, t *Task, _ *lra.Problem) (lra.Chooser, error) {
		p, err := t.Problem()
		if err != nil {
			return nil, err
		}
		target, err := solve(ctx, p)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, lra.ErrInfeasible) {
			return p.Greedy, nil
		}
		if err != nil {
			return nil, err
		}
		return func(x lra.Placement, app int) int {
			for i, s := range target {
				if x[i].Count(app) < s.Count(app) {
					return i
				}
			}
			return -1
		}, nil
	})
	return func(task envs.Task) (envs.Rule, error) {
		if t, ok := task.(*Task); ok && t.heap != nil {
			return nil, fmt.Errorf("lra: containers that come and go are no batch to plan")
		}
		return rule(task)
	}
}

// baselineSeed seeds the random choices of baselines, of each episode alike.
const baselineSeed = 1

// baselineNodes bounds branch and bound in baselines, which play many episodes.
const baselineNodes = 2000

func newBaselineRand() *rand.Rand { return rand.New(pcg.New(baselineSeed)) }

var placementBaselines = []envs.Baseline{
	{Name: "random", Doc: "Draws among the nodes that permit the container.",
		New: choose(func(_ context.Context, _ *Task, p *lra.Problem) (lra.Chooser, error) {
			return p.Random(newBaselineRand()), nil
		})},
	{Name: "round_robin", Doc: "Takes the nodes in turn.",
		New: choose(func(_ context.Context, _ *Task, p *lra.Problem) (lra.Chooser, error) { return p.RoundRobin(), nil })},
	{Name: "least_loaded", Doc: "Takes the node with the fewest containers, then the fewest of the application.",
		New: choose(func(_ context.Context, _ *Task, p *lra.Problem) (lra.Chooser, error) { return p.LeastLoaded, nil })},
	{Name: "paragon", Doc: "Keeps what the containers cause and tolerate apart, as Paragon is published.",
		New: choose(func(_ context.Context, t *Task, p *lra.Problem) (lra.Chooser, error) {
			return p.Paragon(t.src.constraints, newBaselineRand()), nil
		})},
	{Name: "paragon_as_coded", Doc: "Paragon as the earlier project coded it, with its deviations.",
		New: choose(func(_ context.Context, t *Task, p *lra.Problem) (lra.Chooser, error) {
			return p.ParagonAsCoded(t.src.constraints, newBaselineRand()), nil
		})},
	{Name: "greedy", Doc: "Takes the node whose value grows most, in the order of arrival.",
		New: choose(func(_ context.Context, _ *Task, p *lra.Problem) (lra.Chooser, error) { return p.Greedy, nil })},
	{Name: "greedy_app_order", Doc: "Plans the batch greedily, all containers of an application after the other.",
		New: plan(func(ctx context.Context, p *lra.Problem) (lra.Placement, error) {
			return p.Place(lra.AppOrder(p.Batch), lra.Until(ctx, p.Greedy))
		})},
	{Name: "greedy_best_of_21", Doc: "Plans the batch greedily in the order of applications and in 20 random ones, and takes the best.",
		New: plan(func(ctx context.Context, p *lra.Problem) (lra.Placement, error) {
			return p.BestGreedy(ctx, 20, newBaselineRand())
		})},
	{Name: "greedy_local_search", Doc: "Plans greedily in the order of applications and improves by the best moves and swaps.",
		New: plan(func(ctx context.Context, p *lra.Problem) (lra.Placement, error) { return p.GreedyLocalSearch(ctx) })},
	{Name: "medea", Doc: "Plans for the fewest weighted violations of constraints, as Medea does, whatever the throughput.",
		New: func(task envs.Task) (envs.Rule, error) {
			return plan(func(ctx context.Context, p *lra.Problem) (lra.Placement, error) {
				s, err := p.Medea(ctx, task.(*Task).src.constraints, baselineNodes)
				if err != nil {
					return nil, err
				}
				return s.Placement, nil
			})(task)
		}},
	{Name: "milp", Doc: "Plans by the integer program over states of nodes, to a relative gap of 5e-5 or for 2,000 nodes of branch and bound.",
		New: plan(func(ctx context.Context, p *lra.Problem) (lra.Placement, error) {
			s, err := p.Solve(ctx, lra.SolveOptions{Nodes: baselineNodes})
			if err != nil {
				return nil, err
			}
			return s.Placement, nil
		})},
}
