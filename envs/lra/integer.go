package lra

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Bound is the optimum of the linear relaxation: nodes may be divided among states.
type Bound struct {
	Value float64          // no placement has more
	Apps  [NumApps]float64 // duals: what a further container of each application would add
	Nodes []float64        // duals: what a further empty node of each class would add
	Pivot int              // steps of the simplex method
}

// SolveOptions are the options of [Problem.Solve], with their defaults at zero.
type SolveOptions struct {
	Gap   float64 // relative to the value, at which a placement counts as optimal; default 5e-5
	Whole bool    // all values are whole numbers, so that a bound can be rounded down
	Nodes int     // of branch and bound, after which it stops; default 100,000,000 over the columns left
}

// Solution is what [Problem.Solve] found.
type Solution struct {
	Placement Placement
	Value     float64
	Bound     float64 // no placement has more
	Nodes     int     // of branch and bound
	Columns   int     // that were left after the root
}

// program is a problem as an integer program: how many nodes of each class are in each state.
// It has a row for each application and one for each class.
type program struct {
	*simplex
	class []int   // of each column
	state []State // of each column
}

func (p *Problem) program() *program {
	m := NumApps + len(p.Models)
	b := make([]float64, m)
	for a, k := range p.Batch {
		b[a] = float64(k)
	}
	for _, c := range p.Class {
		b[NumApps+c]++
	}
	g := &program{}
	var a, c []float64
	for class, model := range p.Models {
		for s := range State(NumStates) {
			if !model.Permits(s) || !within(s.Counts(), p.Batch) {
				continue
			}
			g.class, g.state = append(g.class, class), append(g.state, s)
			c = append(c, model.Value[s])
			column := make([]float64, m)
			for app, k := range s.Counts() {
				column[app] = float64(k)
			}
			column[NumApps+class] = 1
			a = append(a, column...)
		}
	}
	g.simplex = newSimplex(b, c, a)
	return g
}

func within(a, b Counts) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// Bound solves the linear relaxation.
func (p *Problem) Bound() (Bound, error) {
	if err := p.check(); err != nil {
		return Bound{}, err
	}
	g := p.program()
	if err := g.solve(); err != nil {
		return Bound{}, err
	}
	return g.bound(), nil
}

func (g *program) bound() Bound {
	return Bound{
		Value: g.objective(), Apps: [NumApps]float64(g.pi[:NumApps]), Nodes: slices.Clone(g.pi[NumApps:]), Pivot: g.pivots,
	}
}

// Solve finds a placement of the highest value by branch and bound: the linear relaxation
// first, then without the columns whose reduced cost alone takes more than what lies between
// it and the best placement known. When ctx ends it returns the error of ctx.
func (p *Problem) Solve(ctx context.Context, opts SolveOptions) (*Solution, error) {
	if opts.Gap == 0 {
		opts.Gap = 5e-5
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	g := p.program()
	if err := g.solve(); err != nil {
		return nil, err
	}
	s := &search{p: p, g: g, opts: opts, best: math.Inf(-1), unsettled: math.Inf(-1)}
	s.start(ctx)
	s.round(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err // the placements that were to be found may be missing
	}
	s.shrink()
	if s.opts.Nodes == 0 {
		s.opts.Nodes = 100_000_000 / len(s.g.state)
	}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	if s.x == nil {
		return nil, fmt.Errorf("lra: no placement found within %d nodes of branch and bound", s.opts.Nodes)
	}
	return &Solution{Placement: s.x, Value: s.best, Bound: max(s.bound, s.best), Nodes: s.nodes, Columns: len(s.g.state)}, nil
}

// search is one run of branch and bound.
type search struct {
	p     *Problem
	g     *program
	opts  SolveOptions
	x     Placement // best known
	best  float64   // its value
	bound float64
	nodes int
	open  queue

	unsettled float64 // highest bound of the branches that could not be solved
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

// cutoff returns the bound below which a branch is of no interest.
func (s *search) cutoff() float64 {
	if s.opts.Whole {
		return s.best + 1 - 1e-6
	}
	return s.best + s.opts.Gap*math.Abs(s.best)
}

// offer keeps x if it is the best placement yet.
func (s *search) offer(x Placement) {
	if v := s.p.Value(x); v > s.best {
		s.x, s.best = x, v
	}
}

// start offers the greedy placement, improved.
func (s *search) start(ctx context.Context) {
	s.bound = s.g.objective()
	if x, err := s.p.Place(AppOrder(s.p.Batch), until(ctx, s.p.Greedy)); err == nil {
		s.p.LocalSearch(ctx, x)
		s.offer(x)
	}
}

// round offers what becomes of the present solution of the relaxation rounded down: the rest
// is placed greedily, and the whole is improved.
func (s *search) round(ctx context.Context) {
	free := make([][]int, len(s.p.Models))
	for i := len(s.p.Class) - 1; i >= 0; i-- {
		free[s.p.Class[i]] = append(free[s.p.Class[i]], i)
	}
	x, left := make(Placement, len(s.p.Class)), s.p.Batch
	take := func(j int, v float64) {
		if j >= len(s.g.state) {
			return
		}
		class, state := s.g.class[j], s.g.state[j]
		for range int(v + feasibility) {
			last := len(free[class]) - 1
			x[free[class][last]] = state
			free[class] = free[class][:last]
			for a, k := range state.Counts() {
				left[a] -= k
			}
		}
	}
	for i, j := range s.g.basis {
		take(int(j), s.g.x[i])
	}
	for j := range s.g.state {
		if !s.g.basic[j] {
			take(j, s.g.at(j))
		}
	}
	greedy := until(ctx, s.p.Greedy)
	for _, app := range AppOrder(left) {
		n := greedy(x, app)
		if n < 0 {
			return
		}
		x[n] = s.p.model(n).Next[x[n]][app]
	}
	s.p.LocalSearch(ctx, x)
	s.offer(x)
}

// shrink drops the columns that no placement better than the best can use.
func (s *search) shrink() {
	g := s.g
	slack := g.objective() - s.cutoff()
	keep := &program{}
	var a, c []float64
	index := make(map[int32]int32)
	for j := range g.state {
		if g.basic[j] || g.reduced(j) >= -slack {
			index[int32(j)] = int32(len(keep.state))
			keep.class, keep.state = append(keep.class, g.class[j]), append(keep.state, g.state[j])
			a, c = append(a, g.column(j)...), append(c, g.c[j])
		}
	}
	n := len(keep.state)
	keep.simplex = newSimplex(g.b, c, a)
	for j := n; j < n+g.m; j++ {
		keep.hi[j], keep.basic[j] = 0, false
	}
	for i, j := range g.basis {
		k, ok := index[j]
		if !ok { // an artificial column at 0
			k = j - int32(len(g.state)) + int32(n)
		}
		keep.basis[i] = k
		keep.basic[k] = true
	}
	s.g = keep
}

// run works through the branches, each time down to a leaf and then from the best open one.
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

// expand solves the relaxation of a branch. Unless that settles it, expand returns the child
// to go on with and leaves the other in the queue.
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
	b.bound = min(b.bound, g.objective())
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

// snap rounds what is whole but for rounding.
func (s *search) snap() {
	for i, v := range s.g.x {
		if r := math.Round(v); math.Abs(v-r) < feasibility*10 {
			s.g.x[i] = r
		}
	}
}

// load sets the bounds and the basis of a branch. A column that is not basic stands at the
// bound that its reduced cost wants.
func (s *search) load(b *branch) {
	g := s.g
	n := len(g.state)
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
		return // dual reports it
	}
	for j := range n {
		g.upper[j] = !g.basic[j] && !math.IsInf(g.hi[j], 1) && g.reduced(j) > 0
	}
}
