package planner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// A Chooser returns the node for the next container, of application app, given the states of the nodes, or -1 if no
// node permits it.
type Chooser func(x Placement, app int) int

// Place places containers of the applications in order on empty nodes with choose.
func (p *Problem) Place(order []int, choose Chooser) (Placement, error) {
	x := make(Placement, len(p.Class))
	for i, app := range order {
		n := choose(x, app)
		if n < 0 {
			return nil, fmt.Errorf("%w: no node permits number %d of %d, of %s", ErrInfeasible, i, len(order), lra.Apps[app])
		}
		next := p.Model(n).Next[x[n]][app]
		if next == lra.NoState {
			return nil, fmt.Errorf("lra: node %d with %v does not permit container %d, of %s", n, x[n].Counts(), i, lra.Apps[app])
		}
		x[n] = next
	}
	return x, nil
}

// Greedy returns the node whose value grows most, the first of equal ones.
func (p *Problem) Greedy(x Placement, app int) int {
	best, bestGain := -1, 0.0
	for i, s := range x {
		m := p.Model(i)
		next := m.Next[s][app]
		if next == lra.NoState {
			continue
		}
		if gain := m.Value[next] - m.Value[s]; best < 0 || gain > bestGain {
			best, bestGain = i, gain
		}
	}
	return best
}

// LeastLoaded returns the node with the fewest containers. Among equal ones it takes the node with the fewest of app,
// then the first.
func (p *Problem) LeastLoaded(x Placement, app int) int {
	best, bestLoad := -1, 0
	for i, s := range x {
		if p.Model(i).Next[s][app] == lra.NoState {
			continue
		}
		if load := s.Total()*(lra.MaxSlots+1) + s.Count(app); best < 0 || load < bestLoad {
			best, bestLoad = i, load
		}
	}
	return best
}

// RoundRobin returns a chooser that gives container i to node i modulo the number of nodes, or to the next node that
// permits it.
func (p *Problem) RoundRobin() Chooser {
	next := 0
	return func(x Placement, app int) int {
		for k := range x {
			if i := (next + k) % len(x); p.Model(i).Next[x[i]][app] != lra.NoState {
				next++
				return i
			}
		}
		return -1
	}
}

// Random returns a chooser that draws among the nodes that permit the container.
func (p *Problem) Random(rng *rand.Rand) Chooser {
	return func(x Placement, app int) int {
		n, choice := 0, -1
		for i, s := range x {
			if p.Model(i).Next[s][app] == lra.NoState {
				continue
			}
			n++
			if rng.IntN(n) == 0 {
				choice = i
			}
		}
		return choice
	}
}

// GreedyLocalSearch returns the greedy placement in [AppOrder], improved by [Problem.LocalSearch], or the error of ctx
// once that has ended.
func (p *Problem) GreedyLocalSearch(ctx context.Context) (Placement, error) {
	x, err := p.Place(AppOrder(p.Batch), Until(ctx, p.Greedy))
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	p.LocalSearch(ctx, x)
	return x, ctx.Err()
}

// Until returns a chooser that is choose until ctx ends, and finds no node afterwards.
func Until(ctx context.Context, choose Chooser) Chooser {
	return func(x Placement, app int) int {
		if ctx.Err() != nil {
			return -1
		}
		return choose(x, app)
	}
}

// BestGreedy returns the best of the greedy placements in the order of applications and in shuffles random orders, or
// the error of ctx once that has ended.
func (p *Problem) BestGreedy(ctx context.Context, shuffles int, rng *rand.Rand) (Placement, error) {
	order := AppOrder(p.Batch)
	best, err := p.Place(order, Until(ctx, p.Greedy))
	if err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	for range shuffles {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if x, err := p.Place(order, Until(ctx, p.Greedy)); err == nil && p.Value(x) > p.Value(best) {
			best = x
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return best, nil
}
