package planner

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
)

// Medea returns a placement with the fewest weighted violations, or the fewest found within nodes of branch and bound
// (0 selects the default of [Problem.Solve]). Its program over states of nodes has the same optimum as the published
// one over containers and nodes, with thousands of times fewer variables. Such placements are far from unique, and
// their throughput differs. The Solution's Value is that of p, and its Bound the least number of violations.
func (p *Problem) Medea(ctx context.Context, constraints []interference.Constraint, nodes int) (*Solution, error) {
	q := &Problem{Class: p.Class, Batch: p.Batch}
	for _, m := range p.Models {
		cost := *m
		for s := range lra.State(lra.NumStates) {
			cost.Value[s] = -interference.Violations(constraints, s)
		}
		q.Models = append(q.Models, &cost)
	}
	s, err := q.Solve(ctx, SolveOptions{Whole: true, Nodes: nodes})
	if err != nil {
		return nil, fmt.Errorf("medea: %w", err)
	}
	s.Value, s.Bound = p.Value(s.Placement), -s.Bound
	return s, nil
}
