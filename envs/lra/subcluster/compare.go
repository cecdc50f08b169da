package subcluster

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Slots is the capacity of a sub-cluster in containers.
const Slots = Nodes * lra.MaxSlots

// Quality holds the mean throughput of a container over random batches of one size.
type Quality struct {
	Containers int     `json:"containers"`
	Learned    float64 `json:"learned"` // of the scheduler
	RoundRobin float64 `json:"roundrobin"`
	Greedy     float64 `json:"greedy"`
	GreedyBoth float64 `json:"greedy_both_orders"` // the better of the orders that trained schedulers take
	Bound      float64 `json:"lp_bound"`
}

// Compare lets sub and baselines fill a sub-cluster with rows batches of each number of containers from 1 to [Slots].
// When ctx ends, it returns the completed part and the error of ctx.
func Compare(ctx context.Context, table *lra.Table, sub Scheduler, rows int, seed uint64) ([]Quality, error) {
	if rows < 1 {
		return nil, fmt.Errorf("lra: %d batches of each number of containers, want at least 1", rows)
	}
	rng := rand.New(pcg.New(seed))
	p, err := planner.NewProblem(table, Nodes, lra.Counts{1})
	if err != nil {
		return nil, err
	}
	var all []Quality
	x := make(planner.Placement, Nodes)
	for n := 1; n <= Slots; n++ {
		q := Quality{Containers: n}
		for range rows {
			if err := ctx.Err(); err != nil {
				return all, err
			}
			p.Batch = planner.DrawBatch(rng, n)
			if err := sub.Fill(p, x); err != nil {
				return all, err
			}
			q.Learned += p.Average(x) / float64(rows)
			if err := q.addBaselines(p, 1/float64(rows)); err != nil {
				return all, err
			}
			b, err := p.Bound(context.Background())
			if err != nil {
				return all, err
			}
			q.Bound += b.Value / float64(n) / float64(rows)
		}
		all = append(all, q)
	}
	return all, nil
}

// addBaselines adds the baselines' results, with the weight of one batch.
func (q *Quality) addBaselines(p *planner.Problem, weight float64) error {
	var average [3]float64
	for i, m := range []struct {
		order  []int
		choose planner.Chooser
	}{
		{planner.AppOrder(p.Batch), p.RoundRobin()}, {planner.AppOrder(p.Batch), p.Greedy}, {planner.RoundsOrder(p.Batch), p.Greedy},
	} {
		x, err := p.Place(m.order, m.choose)
		if err != nil {
			return err
		}
		average[i] = p.Average(x)
	}
	q.RoundRobin += weight * average[0]
	q.Greedy += weight * average[1]
	q.GreedyBoth += weight * max(average[1], average[2])
	return nil
}
