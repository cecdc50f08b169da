package planner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
)

// A Method places a whole batch. It may use the constraints, and draw from rng.
type Method struct {
	Name, Doc string
	Solve     func(ctx context.Context, p *Problem, constraints []interference.Constraint, rng *rand.Rand) (Placement, error)
}

// chooserMethod makes a Method of a chooser, which places in the order of applications.
func chooserMethod(name, doc string, choose func(p *Problem, c []interference.Constraint, rng *rand.Rand) Chooser) Method {
	return Method{name, doc, func(_ context.Context, p *Problem, c []interference.Constraint, rng *rand.Rand) (Placement, error) {
		return p.Place(AppOrder(p.Batch), choose(p, c, rng))
	}}
}

// Methods are the planners of package planner, the simplest first.
var Methods = []Method{
	chooserMethod("random", "Draw among the nodes with room",
		func(p *Problem, _ []interference.Constraint, rng *rand.Rand) Chooser { return p.Random(rng) }),
	chooserMethod("round-robin", "Take the nodes in turn",
		func(p *Problem, _ []interference.Constraint, _ *rand.Rand) Chooser { return p.RoundRobin() }),
	chooserMethod("least-loaded", "Take the node with the fewest containers, then the fewest of the application",
		func(p *Problem, _ []interference.Constraint, _ *rand.Rand) Chooser { return p.LeastLoaded }),
	Greedy(),
	{"greedy-shuffled", "Greedy in one random order, as of arrival",
		func(_ context.Context, p *Problem, _ []interference.Constraint, rng *rand.Rand) (Placement, error) {
			order := AppOrder(p.Batch)
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			return p.Place(order, p.Greedy)
		}},
	LocalSearch(),
	Program("milp", "Solve the integer program over states of nodes, to a relative gap of 5e-5", 0),
	{"medea", "Medea: the fewest weighted violations of constraints",
		func(ctx context.Context, p *Problem, c []interference.Constraint, _ *rand.Rand) (Placement, error) {
			return placementOf(p.Medea(ctx, c, 0))
		}},
	chooserMethod("paragon", "Paragon as published: what containers cause and tolerate is kept apart", (*Problem).Paragon),
	chooserMethod("paragon-as-coded", "Paragon as the Metis artefact codes it", (*Problem).ParagonAsCoded),
}

// Greedy returns the method of [Problem.Greedy] in the order of applications.
func Greedy() Method {
	return chooserMethod("greedy", "Take the node whose throughput grows most, in the order of applications",
		func(p *Problem, _ []interference.Constraint, _ *rand.Rand) Chooser { return p.Greedy })
}

// BestGreedy returns the method of [Problem.BestGreedy].
func BestGreedy(name string, shuffles int) Method {
	return Method{name, "The best of greedy placements in several orders",
		func(ctx context.Context, p *Problem, _ []interference.Constraint, rng *rand.Rand) (Placement, error) {
			return p.BestGreedy(ctx, shuffles, rng)
		}}
}

// LocalSearch returns the method of [Problem.GreedyLocalSearch].
func LocalSearch() Method {
	return Method{"local-search", "Greedy, improved by the best moves and swaps",
		func(ctx context.Context, p *Problem, _ []interference.Constraint, _ *rand.Rand) (Placement, error) {
			return p.GreedyLocalSearch(ctx)
		}}
}

// Program returns the method of [Problem.Solve] with a number of nodes of branch and bound; 0 selects its default.
func Program(name, doc string, nodes int) Method {
	return Method{name, doc, func(ctx context.Context, p *Problem, _ []interference.Constraint, _ *rand.Rand) (Placement, error) {
		return placementOf(p.Solve(ctx, SolveOptions{Nodes: nodes}))
	}}
}

// placementOf returns the placement of a solution.
func placementOf(s *Solution, err error) (Placement, error) {
	if err != nil {
		return nil, err
	}
	return s.Placement, nil
}

// A Trial compares methods on batches of containers.
type Trial struct {
	Plan, Score *lra.Table // used by the methods and for throughputs
	Constraints []interference.Constraint
	Nodes       int
	Batches     []lra.Counts
	Rand        func(batch int) *rand.Rand // of a method's random choices on a batch
	Now         func() time.Time           // a clock, for DecisionMicros
}

// Result holds the results of a method in a trial.
type Result struct {
	Method         string
	Throughput     []float64 // of a container, on each batch
	Violations     float64   // weighted, of the constraints; mean over batches
	DecisionMicros float64   // of a container; mean over batches
}

// Run runs the methods on all batches. The last result is the linear bound.
func (t *Trial) Run(ctx context.Context, methods []Method) ([]Result, error) {
	all := make([]Result, len(methods)+1)
	for i, batch := range t.Batches {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		plan, err := NewProblem(t.Plan, t.Nodes, batch)
		if err != nil {
			return nil, err
		}
		score, err := NewProblem(t.Score, t.Nodes, batch)
		if err != nil {
			return nil, err
		}
		n := float64(len(t.Batches))
		micros := func(start time.Time) float64 {
			return t.Now().Sub(start).Seconds() * 1e6 / float64(batch.Total()) / n
		}
		for k, m := range methods {
			start := t.Now()
			x, err := m.Solve(ctx, plan, t.Constraints, t.Rand(i))
			if err != nil {
				return nil, fmt.Errorf("%s on batch %d: %w", m.Name, i, err)
			}
			r := &all[k]
			r.Method = m.Name
			r.DecisionMicros += micros(start)
			r.Throughput = append(r.Throughput, score.Average(x))
			for _, s := range x {
				r.Violations += interference.Violations(t.Constraints, s) / n
			}
		}
		start := t.Now()
		b, err := score.Bound(ctx)
		if err != nil {
			return nil, err
		}
		r := &all[len(methods)]
		r.Method = "linear bound"
		r.DecisionMicros += micros(start)
		r.Throughput = append(r.Throughput, b.Value/float64(batch.Total()))
	}
	return all, nil
}
