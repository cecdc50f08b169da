// Package published reproduces the published comparison of planners.
package published

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
)

// Reproduction holds the throughput of a container that each deterministic method reaches on one batch, and the bound
// on all placements.
//
// Source: the earlier project's batches and tables.
type Reproduction struct {
	RoundRobin       float64  `json:"roundrobin"`
	Greedy           float64  `json:"greedy"`
	LPBound          float64  `json:"lp_bound"`
	MILP             float64  `json:"milp"`
	MetisDemoPlusSub *float64 `json:"metis_demo_plus_sub"` // nil without a sub-scheduler
}

// Reproduce computes a row of the published comparison. The integer program stops at a
// relative gap of [Gap]. sub may be nil.
func Reproduce(ctx context.Context, t *lra.Table, nodes int, batch lra.Counts, sub subcluster.Scheduler) (*Reproduction, error) {
	p, err := planner.NewProblem(t, nodes, batch)
	if err != nil {
		return nil, err
	}
	n, r := float64(batch.Total()), &Reproduction{}
	for _, m := range []struct {
		choose planner.Chooser
		dst    *float64
	}{{p.RoundRobin(), &r.RoundRobin}, {p.Greedy, &r.Greedy}} {
		x, err := p.Place(planner.AppOrder(batch), m.choose)
		if err != nil {
			return nil, err
		}
		*m.dst = p.Average(x)
	}
	bound, err := p.Bound(context.Background())
	if err != nil {
		return nil, err
	}
	r.LPBound = bound.Value / n
	s, err := p.Solve(ctx, planner.SolveOptions{Gap: Gap})
	if err != nil {
		return nil, err
	}
	r.MILP = s.Value / n
	if sub == nil {
		return r, nil
	}
	if nodes%subcluster.Nodes != 0 {
		return nil, fmt.Errorf("lra: %d nodes are no whole number of sub-clusters of %d", nodes, subcluster.Nodes)
	}
	parts, err := subcluster.EqualSplit(batch, nodes/subcluster.Nodes, subcluster.Nodes*lra.MaxSlots)
	if err != nil {
		return nil, err
	}
	x, err := subcluster.FillParts(p, parts, sub)
	if err != nil {
		return nil, err
	}
	r.MetisDemoPlusSub = new(p.Average(x))
	return r, nil
}

// Gap is the relative gap at which the integer program of [Reproduce] stops.
const Gap = 5e-5
