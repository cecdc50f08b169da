package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/solve"
)

// ErrInfeasible means that the nodes cannot hold a batch. Errors of [Problem.Place] (for its order and chooser),
// [Problem.Bound] and [Problem.Solve] wrap it.
var ErrInfeasible = errors.New("lra: the containers cannot be placed within the nodes' slots and permissions")

// Bound is the optimum of the linear relaxation, which may divide a node among states.
type Bound struct {
	Value float64              // no placement has more
	Apps  [lra.NumApps]float64 // duals: what another container of each application would add
	Nodes []float64            // duals: what another empty node of each class would add
}

// SolveOptions are the options of [Problem.Solve]. Zero selects the default.
type SolveOptions struct {
	Gap   float64 // relative to the value, at which a placement counts as optimal; default 5e-5
	Whole bool    // all values are whole numbers, so bounds can be rounded down
	Nodes int     // of branch and bound, after which it stops; default 100,000,000 over the remaining columns
}

// BaselineNodes bounds branch and bound in baselines of environments, which play many episodes.
const BaselineNodes = 2000

// Solution is the result of [Problem.Solve].
type Solution struct {
	Placement Placement
	Value     float64
	Bound     float64 // no placement has more
}

// program is a problem as an integer program: how many nodes of each class are in each state.
// It has a row for each application and one for each class.
type program struct {
	*solve.LP
	class []int       // of each column
	state []lra.State // of each column
}

// program returns the program with its linear relaxation solved, or the error of ctx once that has ended.
func (p *Problem) program(ctx context.Context) (*program, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	m := lra.NumApps + len(p.Models)
	b := make([]float64, m)
	for a, k := range p.Batch {
		b[a] = float64(k)
	}
	for _, c := range p.Class {
		b[lra.NumApps+c]++
	}
	g := &program{}
	var a, c []float64
	for class, model := range p.Models {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for s := range lra.State(lra.NumStates) {
			if !model.Permits(s) || !within(s.Counts(), p.Batch) {
				continue
			}
			g.class, g.state = append(g.class, class), append(g.state, s)
			c = append(c, model.Value[s])
			column := make([]float64, m)
			for app, k := range s.Counts() {
				column[app] = float64(k)
			}
			column[lra.NumApps+class] = 1
			a = append(a, column...)
		}
	}
	g.LP = solve.NewLP(b, c, a)
	if err := g.Solve(ctx); errors.Is(err, solve.ErrInfeasible) {
		return nil, ErrInfeasible
	} else if err != nil {
		return nil, err
	}
	return g, nil
}

func within(a, b lra.Counts) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// Bound solves the linear relaxation.
func (p *Problem) Bound(ctx context.Context) (Bound, error) {
	g, err := p.program(ctx)
	if err != nil {
		return Bound{}, err
	}
	pi := g.Duals()
	return Bound{Value: g.Objective(), Apps: [lra.NumApps]float64(pi[:lra.NumApps]), Nodes: slices.Clone(pi[lra.NumApps:])}, nil
}

// Duals returns the duals of the linear relaxation as prices of the applications.
func (p *Problem) Duals(ctx context.Context) ([lra.NumApps]float64, error) {
	b, err := p.Bound(ctx)
	return b.Apps, err
}

// roundingStep is small compared with differences of values, and large compared with their rounding to float32.
const roundingStep = 1e-5

// RoundingPrices returns prices of the applications at which [Model.BestFill] chooses the state that has most nodes in
// the linear relaxation. At the duals, all states of its solution have the same surplus, even those with a small part
// of a node. RoundingPrices returns the duals as if that state had a slightly lower value, so that it alone has the
// highest surplus. If a state outside the solution then has a higher one, RoundingPrices tries the next state of the
// solution; if none works, it returns the duals.
func (p *Problem) RoundingPrices(ctx context.Context) ([lra.NumApps]float64, error) {
	g, err := p.program(ctx)
	if err != nil {
		return [lra.NumApps]float64{}, err
	}
	type part struct {
		row, column int
		nodes       float64
	}
	var parts []part
	for row := range lra.NumApps + len(p.Models) {
		if column, nodes := g.Basic(row); column >= 0 && nodes > roundingStep {
			parts = append(parts, part{row, column, nodes})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.nodes, a.nodes) })
	duals := [lra.NumApps]float64(g.Duals()[:lra.NumApps])
	for _, part := range parts {
		pi := duals
		for a, v := range g.Sensitivity(part.row)[:lra.NumApps] {
			pi[a] -= roundingStep * v
		}
		if s := g.state[part.column]; p.Models[g.class[part.column]].BestFill(p.Batch, &pi, 0) == s {
			return pi, nil
		}
	}
	return duals, nil
}

// Solve finds a placement of the highest value by branch and bound over the linear relaxation. It returns the error of
// ctx once that has ended.
func (p *Problem) Solve(ctx context.Context, opts SolveOptions) (*Solution, error) {
	opts.Gap = cmp.Or(opts.Gap, 5e-5)
	g, err := p.program(ctx)
	if err != nil {
		return nil, err
	}
	b := &best{p: p, g: g, value: math.Inf(-1)}
	b.start(ctx)
	r, err := g.Maximize(ctx, solve.Options{Gap: opts.Gap, Whole: opts.Whole, Nodes: opts.Nodes, Round: b.round})
	if err != nil {
		return nil, err
	}
	if b.x == nil {
		return nil, fmt.Errorf("lra: no placement found within %d nodes of branch and bound", r.Nodes)
	}
	return &Solution{Placement: b.x, Value: r.Value, Bound: r.Bound}, nil
}

// best is the best known placement.
type best struct {
	p     *Problem
	g     *program
	x     Placement
	value float64
}

// offer keeps x if it is better than the best known placement.
func (b *best) offer(x Placement) {
	if v := b.p.Value(x); v > b.value {
		b.x, b.value = x, v
	}
}

// start offers the greedy placement, improved.
func (b *best) start(ctx context.Context) {
	if x, err := b.p.Place(AppOrder(b.p.Batch), Until(ctx, b.p.Greedy)); err == nil {
		b.p.LocalSearch(ctx, x)
		b.offer(x)
	}
}

// round completes a solution of the relaxation that was rounded down: it places the rest greedily and improves the
// whole. It returns the value of the best known placement.
func (b *best) round(ctx context.Context, floor iter.Seq2[int, int]) float64 {
	p := b.p
	free := make([][]int, len(p.Models))
	for i := len(p.Class) - 1; i >= 0; i-- {
		free[p.Class[i]] = append(free[p.Class[i]], i)
	}
	x, left := make(Placement, len(p.Class)), p.Batch
	for column, n := range floor {
		class, state := b.g.class[column], b.g.state[column]
		for range n {
			last := len(free[class]) - 1
			x[free[class][last]] = state
			free[class] = free[class][:last]
			for a, k := range state.Counts() {
				left[a] -= k
			}
		}
	}
	greedy := Until(ctx, p.Greedy)
	for _, app := range AppOrder(left) {
		n := greedy(x, app)
		if n < 0 {
			return b.value
		}
		x[n] = p.Model(n).Next[x[n]][app]
	}
	p.LocalSearch(ctx, x)
	b.offer(x)
	return b.value
}
