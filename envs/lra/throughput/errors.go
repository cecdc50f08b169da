package throughput

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// TableError holds the differences between the throughputs of two tables.
type TableError struct {
	States        int        `json:"states"`            // compared
	MSE           float64    `json:"mse"`               // of the throughput of a container, over the present applications
	MAE           float64    `json:"mae"`               // likewise
	PerContainer  float64    `json:"mae_per_container"` // mean absolute error of a node's throughput, for each of its containers
	LargestRatio  float64    `json:"largest_ratio"`     // largest ratio of the first to the second throughput of a node
	LargestAtNode lra.Counts `json:"largest_ratio_at"`  // the state with that ratio
}

// Compare returns the errors of t relative to truth in the states that keep accepts, except the empty one.
func Compare(t, truth *lra.Table, keep func(s lra.State) bool) TableError {
	e := TableError{}
	entries := 0
	for s := lra.State(1); s < lra.NumStates; s++ {
		if !keep(s) {
			continue
		}
		e.States++
		for a, k := range s.Counts() {
			if k > 0 {
				d := t.RPS[s][a] - truth.RPS[s][a]
				e.MSE += d * d
				e.MAE += math.Abs(d)
				entries++
			}
		}
		e.PerContainer += math.Abs(t.Total[s]-truth.Total[s]) / float64(s.Total())
		if ratio := t.Total[s] / truth.Total[s]; ratio > e.LargestRatio {
			e.LargestRatio, e.LargestAtNode = ratio, s.Counts()
		}
	}
	n := float64(max(1, entries))
	e.MSE, e.MAE, e.PerContainer = e.MSE/n, e.MAE/n, e.PerContainer/float64(max(1, e.States))
	return e
}
