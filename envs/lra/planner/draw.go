package planner

import (
	"cmp"
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// DrawBatch draws a batch of equally likely applications.
func DrawBatch(rng *rand.Rand, containers int) (b lra.Counts) {
	for range containers {
		b[rng.IntN(lra.NumApps)]++
	}
	return b
}

// DrawBatches draws n batches of equally likely applications.
func DrawBatches(containers, n int, seed uint64) []lra.Counts {
	rng := rand.New(pcg.New(seed))
	all := make([]lra.Counts, n)
	for i := range all {
		all[i] = DrawBatch(rng, containers)
	}
	return all
}

// MeanMixBound returns the linear bound of a container's throughput for the mean number of running containers of each
// application at a load, the used share of the slots, with equally likely applications. The bound is concave in the
// numbers of containers, so no policy's average over time exceeds it, except by chance of the arrivals.
func MeanMixBound(table *lra.Table, nodes int, load float64) (float64, error) {
	each := cmp.Or(int(load*float64(nodes*lra.MaxSlots)/lra.NumApps), 1)
	var mix lra.Counts
	for a := range mix {
		mix[a] = each
	}
	p, err := NewProblem(table, nodes, mix)
	if err != nil {
		return 0, err
	}
	b, err := p.Bound(context.Background())
	return b.Value / float64(mix.Total()), err
}
