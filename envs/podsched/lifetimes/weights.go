package lifetimes

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
)

// Weights are the weights of the costs at the later horizons; the cost now has weight 1.
type Weights struct {
	After10  float64 `opt:"after_10" doc:"weight of the cost expected after 10 % of the mean lifetime" range:"0.01,3,log"`
	After25  float64 `opt:"after_25" doc:"after 25 %" range:"0.01,3,log"`
	After50  float64 `opt:"after_50" doc:"after 50 %" range:"0.01,3,log"`
	After100 float64 `opt:"after_100" doc:"after 100 %" range:"0.01,3,log"`
}

// Cheapest returns the node with the lowest weighted sum of costs among those that mask permits, the first of equal
// ones.
func (f *Forecast) Cheapest(w Weights, mask []bool) int {
	c := &f.cost
	best, lowest := 0, math.Inf(1)
	for i, ok := range mask {
		if !ok {
			continue
		}
		cost := c[0][i] + w.After10*c[1][i] + w.After25*c[2][i] + w.After50*c[3][i] + w.After100*c[4][i]
		if cost < lowest-imbalance.Rounding {
			best, lowest = i, cost
		}
	}
	return best
}
