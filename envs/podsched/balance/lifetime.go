package balance

import (
	"errors"
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// lifetimeWeights are the weights of GreedyLifetime: of the cost that hints let expect at each later
// horizon, beside the cost after the bind, whose weight is 1.
type lifetimeWeights struct {
	After10  float64 `opt:"after_10" doc:"weight of the cost expected after 10 % of the mean lifetime" range:"0.01,3,log"`
	After25  float64 `opt:"after_25" doc:"after 25 %" range:"0.01,3,log"`
	After50  float64 `opt:"after_50" doc:"after 50 %" range:"0.01,3,log"`
	After100 float64 `opt:"after_100" doc:"after 100 %" range:"0.01,3,log"`
}

// newGreedyLifetime returns the maker of policies that take the node of the lowest weighted sum of costs.
func newGreedyLifetime(w lifetimeWeights) func(envs.Task) (envs.Policy, error) {
	return func(task envs.Task) (envs.Policy, error) {
		t, ok := task.(*Task)
		if !ok {
			return nil, fmt.Errorf("balance: a baseline for a task of type %T", task)
		}
		if t.forecasts == nil {
			return nil, errors.New("balance: GreedyLifetime needs hints:lifetime")
		}
		return policyOf(func(*Task) chooser { return w.choose })(t)
	}
}

func (w lifetimeWeights) choose(t *Task, _ *cluster.State, mask []bool) int {
	c := &t.forecasts.cost
	best, lowest := 0, math.Inf(1)
	for i, ok := range mask {
		if !ok {
			continue
		}
		cost := c[0][i] + w.After10*c[1][i] + w.After25*c[2][i] + w.After50*c[3][i] + w.After100*c[4][i]
		if cost < lowest-rounding {
			best, lowest = i, cost
		}
	}
	return best
}
