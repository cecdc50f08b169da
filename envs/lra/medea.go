package lra

import (
	"context"
	"fmt"
)

// Violations returns the weighted violations of the constraints on a node in state s: for each
// container and constraint of its application, by how many others it is off. Containers of the
// subject's own application count without itself. Source: the integer program of the Metis
// artefact for Medea (Garefalakis et al., EuroSys'18), whose slack variables it sums.
func Violations(constraints []Constraint, s State) float64 {
	n, cost := s.Counts(), 0.0
	for i := range constraints {
		c := &constraints[i]
		if n[c.Subject] == 0 {
			continue
		}
		others := n[c.Other]
		if c.Other == c.Subject {
			others--
		}
		off := others - c.Threshold
		if c.AtLeast {
			off = -off
		}
		if off > 0 {
			cost += c.Weight() * float64(off*n[c.Subject])
		}
	}
	return cost
}

// Medea returns a placement with the fewest weighted violations, or the fewest found within
// nodes of branch and bound (0: as many as [Problem.Solve]). Its program over states of
// nodes has the optimum of the published one over containers and nodes, with thousands of times
// fewer variables. Such placements are far from unique, and their throughput differs. The
// Solution's Value is that of p, and its Bound the least number of violations.
func (p *Problem) Medea(ctx context.Context, constraints []Constraint, nodes int) (*Solution, error) {
	q := &Problem{Class: p.Class, Batch: p.Batch}
	for _, m := range p.Models {
		cost := *m
		for s := range State(NumStates) {
			cost.Value[s] = -Violations(constraints, s)
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
