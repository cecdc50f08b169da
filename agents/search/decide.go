package search

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// arm is a candidate action.
type arm struct {
	action  int
	prior   float64   // Gumbel noise and logit
	returns []float64 // of its simulations, in the order of futures
}

func (a *arm) mean() float64 {
	sum := 0.0
	for _, v := range a.returns {
		sum += v
	}
	return sum / float64(len(a.returns))
}

// decision is a search for one action.
type decision struct {
	s     *Searcher
	ctx   context.Context // decisions are short-lived
	root  *envs.Env
	seed  uint64
	base  int // action of the base policy
	arms  []*arm
	began time.Time
}

// draw draws the candidates without replacement by the Gumbel-top-k trick. MethodGumbel draws them from a prior, 1 −
// Exploration for the base policy's action and equal shares for the others. MethodRollout takes the base policy's
// action first, then those of the advisers, then random ones.
func (d *decision) draw(mask []bool, advised []int) {
	rng := rand.New(pcg.New(d.seed))
	others := -1
	for _, ok := range mask {
		if ok {
			others++
		}
	}
	rollout, e := d.s.config.Method == MethodRollout, d.s.config.Exploration
	for a, ok := range mask {
		noise := -math.Log(-math.Log(1 - rng.Float64())) // Gumbel; 1 − u is not 0
		if !ok {
			continue
		}
		logit := math.Log(e / float64(others))
		switch {
		case a == d.base && rollout:
			logit = math.Inf(1)
		case a == d.base:
			logit = math.Log(1 - e)
		case slices.Contains(advised, a):
			logit = math.MaxFloat64
		}
		d.arms = append(d.arms, &arm{action: a, prior: noise + logit})
	}
	slices.SortStableFunc(d.arms, func(a, b *arm) int { return cmp.Compare(b.prior, a.prior) })
	d.arms = d.arms[:min(len(d.arms), d.s.config.Actions)]
}

// visit plays visits more futures for each of arms.
func (d *decision) visit(arms []*arm, visits int) error {
	var todo []simulation
	for _, a := range arms {
		for k := range visits {
			todo = append(todo, simulation{arm: a, future: len(a.returns) + k})
		}
	}
	if err := d.play(todo); err != nil {
		return err
	}
	for _, s := range todo {
		s.arm.returns = append(s.arm.returns, s.value)
	}
	return nil
}

// compare implements MethodRollout: all arms play the same futures.
func (d *decision) compare() (int, error) {
	played := 0
	for step := len(d.s.workers); played < d.s.config.Futures && (played == 0 || !d.late()); {
		if d.s.config.Millis > 0 {
			step = 1
		}
		n := min(step, d.s.config.Futures-played)
		if err := d.visit(d.arms, n); err != nil {
			return 0, err
		}
		played += n
	}
	best, most := d.base, 0.0
	for _, a := range d.arms[1:] {
		if v := bound(a.returns, d.arms[0].returns, d.s.config.Confidence); v > most {
			best, most = a.action, v
		}
	}
	return best, nil
}

// bound returns the mean of the paired differences a − b less z standard errors. With a single pair
// the standard error is unknown, and the bound −∞ unless z is 0.
func bound(a, b []float64, z float64) float64 {
	n, sum, squares := float64(len(a)), 0.0, 0.0
	for i := range a {
		sum += a[i] - b[i]
	}
	mean := sum / n
	if z == 0 {
		return mean
	}
	if n < 2 {
		return math.Inf(-1)
	}
	for i := range a {
		squares += (a[i] - b[i] - mean) * (a[i] - b[i] - mean)
	}
	return mean - z*math.Sqrt(squares/(n-1)/n)
}

// halve implements MethodGumbel: sequential halving by prior (logit and noise) plus σ of the mean returns.
func (d *decision) halve() (int, error) {
	left := d.arms
	for _, phase := range Halving(len(d.arms), d.s.config.Actions*d.s.config.Futures) {
		left = left[:min(len(left), phase.Actions)]
		if err := d.visit(left, phase.Visits); err != nil {
			return 0, err
		}
		d.rank(left)
		if d.late() {
			break
		}
	}
	return left[0].action, nil
}

// rank sorts the arms, whose numbers of visits differ by one at most, by prior plus σ.
func (d *decision) rank(arms []*arm) {
	means, most := make([]float64, len(arms)), 0
	for i, a := range arms {
		means[i], most = a.mean(), max(most, len(a.returns))
	}
	score := map[*arm]float64{}
	for i, q := range normalize(means) {
		score[arms[i]] = arms[i].prior + sigma(q, most)
	}
	slices.SortStableFunc(arms, func(a, b *arm) int { return cmp.Compare(score[b], score[a]) })
}
