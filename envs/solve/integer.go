package solve

import (
	"container/heap"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
)

// Options are the options of [LP.Maximize].
type Options struct {
	Gap   float64 // relative to the value, at which a solution counts as optimal
	Whole bool    // all values are whole numbers, so bounds can be rounded down
	Nodes int     // of branch and bound, after which it stops; default 100,000,000 over the remaining columns

	// Round turns the solution of a relaxation into a solution in whole numbers. floor yields the former rounded down,
	// as pairs of a column and a whole number of at least 1. Round returns the value of the best solution that it has
	// found so far, -Inf for none. The caller keeps the solutions.
	Round func(ctx context.Context, floor iter.Seq2[int, int]) float64
}

// Result is the result of [LP.Maximize].
type Result struct {
	Value float64 // of the best solution; -Inf if none was found
	Bound float64 // no solution has more
	Nodes int     // of branch and bound
}

// Maximize searches for the best solution in whole numbers by branch and bound, after [LP.Solve]. It drops the columns
// whose reduced cost exceeds the difference between the linear optimum and the first solution. It returns the error of
// ctx once that has ended.
func (s *LP) Maximize(ctx context.Context, opts Options) (Result, error) {
	b := &search{g: s, opts: opts, bound: s.Objective(), unsettled: math.Inf(-1)}
	for j := range s.n - s.m {
		b.column = append(b.column, j)
	}
	b.round(ctx)
	if err := ctx.Err(); err != nil {
		return Result{}, err // Round may not have found a solution
	}
	b.shrink()
	if b.opts.Nodes == 0 {
		b.opts.Nodes = 100_000_000 / len(b.column)
	}
	if err := b.run(ctx); err != nil {
		return Result{}, err
	}
	return Result{Value: b.best, Bound: max(b.bound, b.best), Nodes: b.nodes}, nil
}

// search is one run of branch and bound.
type search struct {
	g      *LP
	column []int // index in the LP that Maximize began with, for each column but the artificial ones
	opts   Options
	best   float64 // value of the best solution known
	bound  float64
	nodes  int
	open   queue

	unsettled float64 // highest bound of the branches that the dual method could not solve
}

// branch is a node of branch and bound: its parent with the bounds of one more column.
type branch struct {
	parent *branch
	column int32
	lo, hi float64
	bound  float64
	basis  []int32
}

// queue has the open branch of the highest bound first.
type queue []*branch

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].bound > q[j].bound }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*branch)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// cutoff returns the bound that a branch must exceed.
func (s *search) cutoff() float64 {
	switch {
	case math.IsInf(s.best, -1):
		return s.best
	case s.opts.Whole:
		return s.best + 1 - 1e-6
	}
	return s.best + s.opts.Gap*math.Abs(s.best)
}

// round lets Options.Round turn the current solution of the relaxation into one in whole numbers.
func (s *search) round(ctx context.Context) {
	g := s.g
	s.best = s.opts.Round(ctx, func(yield func(column, n int) bool) {
		each := func(j int, v float64) bool {
			n := int(v + feasibility)
			return j >= len(s.column) || n < 1 || yield(s.column[j], n)
		}
		for i, j := range g.basis {
			if !each(int(j), g.x[i]) {
				return
			}
		}
		for j := range s.column {
			if !g.basic[j] && !each(j, g.at(j)) {
				return
			}
		}
	})
}

// shrink drops the columns that no better solution can use.
func (s *search) shrink() {
	g := s.g
	slack := g.Objective() - s.cutoff()
	var a, c []float64
	var column []int
	index := make(map[int32]int32)
	for j := range s.column {
		if g.basic[j] || g.reduced(j) >= -slack {
			index[int32(j)] = int32(len(column))
			column = append(column, s.column[j])
			a, c = append(a, g.column(j)...), append(c, g.c[j])
		}
	}
	n := len(column)
	keep := NewLP(g.b, c, a)
	for j := n; j < n+g.m; j++ {
		keep.hi[j], keep.basic[j] = 0, false
	}
	for i, j := range g.basis {
		k, ok := index[j]
		if !ok { // an artificial column at 0
			k = j - int32(len(s.column)) + int32(n)
		}
		keep.basis[i] = k
		keep.basic[k] = true
	}
	s.g, s.column = keep, column
}

// run processes the branches: each time down to a leaf, then from the best open one.
func (s *search) run(ctx context.Context) error {
	root := &branch{column: -1, bound: s.bound, basis: slices.Clone(s.g.basis)}
	heap.Push(&s.open, root)
	for len(s.open) > 0 && s.nodes < s.opts.Nodes {
		b := heap.Pop(&s.open).(*branch)
		for b != nil && b.bound > s.cutoff() {
			err := ctx.Err()
			if err != nil {
				return err
			}
			if b, err = s.expand(ctx, b); err != nil {
				return err
			}
			if s.nodes >= s.opts.Nodes {
				if b != nil {
					heap.Push(&s.open, b)
				}
				break
			}
		}
	}
	switch {
	case len(s.open) > 0 && s.open[0].bound > s.cutoff():
		s.bound = s.open[0].bound
	case s.opts.Whole:
		s.bound = s.best
	default:
		s.bound = min(s.bound, s.cutoff())
	}
	s.bound = max(s.bound, s.unsettled)
	return nil
}

// expand solves the relaxation of a branch. Unless that settles the branch, expand returns one child to continue with,
// and puts the other into the queue.
func (s *search) expand(ctx context.Context, b *branch) (*branch, error) {
	s.nodes++
	g := s.g
	s.load(b)
	ok, err := g.dual(s.cutoff())
	if errors.Is(err, errStalled) {
		s.unsettled = max(s.unsettled, b.bound)
		return nil, nil
	}
	if err != nil || !ok {
		return nil, err
	}
	b.bound = min(b.bound, g.Objective())
	row, worst := -1, feasibility*10
	for i := range g.x {
		f := g.x[i] - math.Floor(g.x[i])
		if f = min(f, 1-f); f > worst {
			row, worst = i, f
		}
	}
	if row < 0 || s.nodes%100 == 0 {
		s.snap()
		s.round(ctx)
	}
	if row < 0 {
		return nil, nil
	}
	j, v := g.basis[row], g.x[row]
	basis := slices.Clone(g.basis)
	down := &branch{parent: b, column: j, lo: g.lo[j], hi: math.Floor(v), bound: b.bound, basis: basis}
	up := &branch{parent: b, column: j, lo: math.Ceil(v), hi: g.hi[j], bound: b.bound, basis: basis}
	heap.Push(&s.open, down)
	return up, nil
}

// snap rounds values that differ from a whole number only by rounding errors.
func (s *search) snap() {
	for i, v := range s.g.x {
		if r := math.Round(v); math.Abs(v-r) < feasibility*10 {
			s.g.x[i] = r
		}
	}
}

// load sets the bounds and the basis of a branch. A column that is not basic stands at the bound that suits its reduced
// cost.
func (s *search) load(b *branch) {
	g := s.g
	n := len(s.column)
	clear(g.lo)
	clear(g.basic)
	clear(g.upper)
	for j := range n {
		g.hi[j] = math.Inf(1)
	}
	for at := b; at.column >= 0; at = at.parent {
		g.lo[at.column], g.hi[at.column] = max(g.lo[at.column], at.lo), min(g.hi[at.column], at.hi)
	}
	copy(g.basis, b.basis)
	for _, j := range g.basis {
		g.basic[j] = true
	}
	if err := g.factor(); err != nil {
		return // dual reports the error
	}
	for j := range n {
		g.upper[j] = !g.basic[j] && !math.IsInf(g.hi[j], 1) && g.reduced(j) > 0
	}
}
