package placement

import (
	"context"
	"errors"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// choose makes a policy of a chooser, which start makes for each episode. If the chooser finds no node, the policy
// takes the first permitted one.
func choose(start func(ctx context.Context, t *Task, p *planner.Problem) (planner.Chooser, error)) func(envs.Task) (envs.Policy, error) {
	return envs.ForTask("lra: a baseline of placement", func(t *Task) (envs.Policy, error) {
		return world.Policy(func(ctx context.Context) (world.Descent, error) {
			chooser, err := start(ctx, t, t.ep.Empty())
			return world.Descent{
				Tree: &t.tree, Decision: t.ep.Decided, Choose: func() int { return t.ep.Choose(chooser) }, Below: t.ep.FirstOpen,
			}, err
		}), nil
	})
}

// plan makes a policy of a planner of whole batches: a container goes to the first node that still lacks one of its
// application. If the planner finds no placement, the policy is greedy.
func plan(solve func(ctx context.Context, p *planner.Problem) (planner.Placement, error)) func(envs.Task) (envs.Policy, error) {
	policy := choose(func(ctx context.Context, t *Task, _ *planner.Problem) (planner.Chooser, error) {
		p, err := t.ep.Problem()
		if err != nil {
			return nil, err
		}
		target, err := solve(ctx, p)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, planner.ErrInfeasible) {
			return p.Greedy, nil
		}
		if err != nil {
			return nil, err
		}
		return func(x planner.Placement, app int) int {
			for i, s := range target {
				if x[i].Count(app) < s.Count(app) {
					return i
				}
			}
			return -1
		}, nil
	})
	return func(task envs.Task) (envs.Policy, error) {
		if t, ok := task.(*Task); ok && t.ep.Online() {
			return nil, world.ErrNoBatch
		}
		return policy(task)
	}
}

var baselines = []envs.Baseline{
	{Name: "random", Doc: "Draws among the nodes that permit the container.",
		New: choose(func(_ context.Context, _ *Task, p *planner.Problem) (planner.Chooser, error) {
			return p.Random(world.BaselineRand()), nil
		})},
	{Name: "round_robin", Doc: "Takes the nodes in turn.",
		New: choose(func(_ context.Context, _ *Task, p *planner.Problem) (planner.Chooser, error) {
			return p.RoundRobin(), nil
		})},
	{Name: "least_loaded", Doc: "Takes the node with the fewest containers, then the fewest of the application.",
		New: choose(func(_ context.Context, _ *Task, p *planner.Problem) (planner.Chooser, error) {
			return p.LeastLoaded, nil
		})},
	{Name: "paragon", Doc: "Keeps what the containers cause and tolerate apart, as Paragon is published.",
		New: choose(func(_ context.Context, t *Task, p *planner.Problem) (planner.Chooser, error) {
			return p.Paragon(t.src.Constraints, world.BaselineRand()), nil
		})},
	{Name: "paragon_as_coded", Doc: "Paragon as the earlier project coded it, with its deviations.",
		New: choose(func(_ context.Context, t *Task, p *planner.Problem) (planner.Chooser, error) {
			return p.ParagonAsCoded(t.src.Constraints, world.BaselineRand()), nil
		})},
	{Name: "greedy", Doc: "Takes the node whose value grows most, in the order of arrival.",
		New: choose(func(_ context.Context, _ *Task, p *planner.Problem) (planner.Chooser, error) { return p.Greedy, nil })},
	{Name: "greedy_app_order", Doc: "Plans the batch greedily, all containers of an application after the other.",
		New: plan(func(ctx context.Context, p *planner.Problem) (planner.Placement, error) {
			return p.Place(planner.AppOrder(p.Batch), planner.Until(ctx, p.Greedy))
		})},
	{Name: "greedy_best_of_21", Doc: "Plans the batch greedily in the order of applications and in 20 random ones, and takes the best.",
		New: plan(func(ctx context.Context, p *planner.Problem) (planner.Placement, error) {
			return p.BestGreedy(ctx, 20, world.BaselineRand())
		})},
	{Name: "greedy_local_search", Doc: "Plans greedily in the order of applications and improves by the best moves and swaps.",
		New: plan(func(ctx context.Context, p *planner.Problem) (planner.Placement, error) {
			return p.GreedyLocalSearch(ctx)
		})},
	{Name: "medea", Doc: "Plans for the fewest weighted violations of constraints, as Medea does, whatever the throughput.",
		New: func(task envs.Task) (envs.Policy, error) {
			return plan(func(ctx context.Context, p *planner.Problem) (planner.Placement, error) {
				s, err := p.Medea(ctx, task.(*Task).src.Constraints, planner.BaselineNodes)
				if err != nil {
					return nil, err
				}
				return s.Placement, nil
			})(task)
		}},
	{Name: "milp", Doc: "Plans by the integer program over states of nodes, to a relative gap of 5e-5 or for 2,000 nodes of branch and bound.",
		New: plan(func(ctx context.Context, p *planner.Problem) (planner.Placement, error) {
			s, err := p.Solve(ctx, planner.SolveOptions{Nodes: planner.BaselineNodes})
			if err != nil {
				return nil, err
			}
			return s.Placement, nil
		})},
}
